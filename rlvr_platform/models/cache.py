"""Models built on this machine, kept between runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from rlvr_platform.errors import DeadlineError

BUILD_TIMEOUT_S = 1800.0


def cache_root() -> Path:
    """RLVR_CACHE, else XDG_CACHE_HOME/rlvr, else ~/.cache/rlvr."""
    if chosen := os.environ.get("RLVR_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "rlvr"


def cached_model(name: str, build: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache; `build` fills it when it is not there yet.

    One process builds while others wait for it. The folder appears by a rename once it is
    complete, so nobody ever sees a half-built one.
    """
    models = cache_root() / "models"
    target = models / name
    if target.is_dir():
        return target
    _make_private(models)
    lock = FileLock(models / f".{name}.lock", timeout=BUILD_TIMEOUT_S)
    try:
        with lock:
            if not target.is_dir():
                _build(target, build)
    except Timeout:
        raise DeadlineError(
            f"another process has been building {target} for {BUILD_TIMEOUT_S:.0f} s",
            "a finished model",
            f"end that process, or set RLVR_CACHE to another folder; the lock is {lock.lock_file}",
        ) from None
    return target


def _make_private(models: Path) -> None:
    """Models that others can replace would be trained in good faith."""
    for folder in (models.parent, models):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _build(target: Path, build: Callable[[Path], None]) -> None:
    prefix = f".{target.name}.building-"
    # The lock is held: whatever carries the prefix was left by a process that died.
    for stale in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(stale)
    scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    try:
        build(scratch)
        for file in scratch.iterdir():
            _fsync(file)
        _fsync(scratch)
        scratch.rename(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    _fsync(target.parent)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
