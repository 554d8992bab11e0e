"""`rlvr report`: a run as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlvr_platform.run_folder import RunFolder


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its arguments."""
    parser = subparsers.add_parser(
        "report",
        help="write the HTML report of a run",
        description="Writes one self-contained HTML file: what was learned, whether the run was "
        "healthy, where time and tokens went, and rollouts to read. Works at any moment of a run.",
    )
    parser.add_argument("run_dir", metavar="RUN", type=Path, help="folder of the run")
    parser.add_argument("--out", metavar="FILE", type=Path, help="default: RUN/report.html")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the report and print its path; raises InputError when that cannot be done."""
    # Only this command reads Parquet: the others start without waiting for its library.
    from rlvr_platform.report import write_report

    out = args.out or RunFolder(args.run_dir).report
    write_report(args.run_dir, out)
    print(out)
    return 0
