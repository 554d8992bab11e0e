"""Where it runs: thin Ray shells around the objects of `rlvr_platform`."""

RLVR_PLATFORM_ACTORS = True
"""Marker: tells this package from the unrelated distribution called `actors`."""
