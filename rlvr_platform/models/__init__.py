"""The policies that can be trained, and where their folders come from."""

from rlvr_platform.models.resolve import resolve_model

__all__ = ["resolve_model"]
