"""A finished, stopped or running run as one HTML file that needs nothing else."""

from rlvr_platform.report.page import build_report, write_report

__all__ = ["build_report", "write_report"]
