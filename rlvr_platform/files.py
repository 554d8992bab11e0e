"""Files that are whole or absent, whatever kills the process: temporary name, fsync, rename."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any
from zipfile import BadZipFile

from rlvr_platform.errors import ClusterError, InputError

CHECKSUMS = "checksums.json"
_PARTIAL = ".partial-"

NPZ_ERRORS = (OSError, ValueError, EOFError, RuntimeError, BadZipFile)
"""What reading an .npz file raises when it is missing or damaged."""


FULL = (errno.ENOSPC, errno.EDQUOT)
_NOTHING_LEFT = 1 << 20
"""With fewer free bytes than this, a disk is full to whoever failed to write on it."""


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError about `path` into a ClusterError on a full disk, else into an InputError."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise ClusterError(
                f"cannot write {path}: {error.strerror}",
                fix=f"free some space on the disk of {path}",
            ) from error
        raise InputError(
            f"cannot write {path}: {error.strerror}", fix="choose a folder you may write"
        ) from error


@contextmanager
def full_disk(path: Path, need: float) -> Iterator[None]:
    """Turn whatever the writers of `path` raise over a full disk into one ClusterError.

    Libraries and other processes tell it in their own words, so the disk itself is asked too.
    `need`: bytes that all of it takes, for the message. Other errors pass.
    """
    try:
        yield
    except Exception as error:
        free, _ = free_space(path)
        told = os.strerror(errno.ENOSPC) in str(error)
        if free >= _NOTHING_LEFT and not told:
            raise
        if free >= max(need, _NOTHING_LEFT):
            raise ClusterError(
                f"a disk became full while {path} was written; that of the path itself has "
                f"{in_words(free)} free now",
                f"about {in_words(need)} free there, and room where Ray keeps its files "
                "(cluster.temp_dir), to which a full object store spills",
                "free some space, or raise cluster.object_store_gib; what was written before is "
                "untouched",
            ) from error
        raise ClusterError(
            f"the disk of {path} became full while it was written",
            f"about {in_words(need)} free, and room for what else goes there meanwhile",
            "free some space; what was written before is untouched",
        ) from error


def check_space(path: Path, minimum_bytes: int) -> None:
    """Raise InputError when the disk that holds `path` has fewer free bytes."""
    free, there = free_space(path)
    if free < minimum_bytes:
        raise InputError(
            f"{there} has {in_words(free)} free",
            f"at least {in_words(minimum_bytes)} for {path}",
            "free some space or choose another --run-dir",
        )


def free_space(path: Path) -> tuple[int, Path]:
    """Free bytes of the disk that holds `path` or will, and the folder that was asked."""
    there = next(p for p in (path, *path.absolute().parents) if p.exists())
    return shutil.disk_usage(there).free, there


def in_words(size: float) -> str:
    """A number of bytes for the reader."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def write_atomic(path: Path, data: bytes | str) -> None:
    """Replace `path` by `data`: a reader sees the old content or the new, never a part.

    Raises InputError when the disk does not take it, ClusterError when it is full; the old
    content then stays.
    """
    temporary = _partial(path)
    with disk_errors(path):
        try:
            with open(temporary, "xb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _fsync(path.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of `path`; on success seal it and give it its name.

    An error inside the block removes the temporary folder. Raises InputError when `path`
    exists or the disk does not take it, ClusterError when it is full.
    """
    if path.exists():
        raise InputError(f"{path} exists", "a new folder", "remove it or choose another name")
    temporary = _partial(path)
    with disk_errors(path):
        temporary.mkdir(parents=True)
    try:
        yield temporary
        with disk_errors(path):
            seal(temporary)
            os.rename(temporary, path)
            _fsync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Remove `path` so that a kill halfway leaves no folder of that name."""
    doomed = _partial(path)
    with disk_errors(path):
        os.rename(path, doomed)
        shutil.rmtree(doomed)


def remove_partials(folder: Path) -> int:
    """Remove what writes cut off by a kill left directly in `folder`; returns how many."""
    partials = list(folder.glob(f".*{_PARTIAL}*"))
    with disk_errors(folder):
        for path in partials:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return len(partials)


def seal(folder: Path) -> None:
    """Make every file of `folder` durable and write the SHA-256 of each, checksums last."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p != folder / CHECKSUMS)
    sums = {p.relative_to(folder).as_posix(): _sha256(p) for p in files}
    for path in files:
        _fsync(path)
    for inner in (p for p in folder.rglob("*") if p.is_dir()):
        _fsync(inner)
    write_atomic(folder / CHECKSUMS, json.dumps(sums, indent=1))


def verify_checksums(folder: Path) -> None:
    """Raise InputError naming the first file of `folder` that is missing or changed."""
    fix = "restore the folder from a copy, or use an older one"
    for name, expected in _checksums(folder).items():
        path = folder / name
        if not path.is_file():
            raise InputError(f"{path} is missing", f"the file listed in {CHECKSUMS}", fix)
        if _sha256(path) != expected:
            raise InputError(f"{path} is damaged", f"SHA-256 {expected}", fix)


def _checksums(folder: Path) -> dict[str, str]:
    path = folder / CHECKSUMS
    try:
        sums = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}", "a complete folder") from None
    if not isinstance(sums, dict):
        raise InputError(f"{path} holds {type(sums).__name__}", "file names and their SHA-256")
    return sums


class JsonLines:
    """Appends JSON objects to a file, each as one complete line in one write.

    A line is safe from the death of this process once `write` returns, and from the death
    of the machine once `sync` returns. A torn last line, left by a disk that filled or a
    machine that lost power, moves to NAME.torn when the file is opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with disk_errors(path):
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            self._repair()

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one line. NaN and infinity are not JSON: they raise ValueError."""
        line = (json.dumps(record, allow_nan=False, default=_plain) + "\n").encode()
        with disk_errors(self._path):
            written = os.write(self._fd, line)
            if written < len(line):
                os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """Wait until the lines written so far are on the disk."""
        with disk_errors(self._path):
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _repair(self) -> None:
        complete = _end_of_last_line(self._fd)
        torn = os.pread(self._fd, os.fstat(self._fd).st_size - complete, complete)
        if torn:
            with open(f"{self._path}.torn", "ab") as file:
                file.write(torn + b"\n")
            os.ftruncate(self._fd, complete)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file written by `JsonLines`, also while it is being written.

    Raises InputError naming the line that is not a JSON object.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    return [_parse(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def _parse(line: bytes, place: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise InputError(f"{place} is not JSON: {error}", "one JSON object a line") from None
    if not isinstance(record, dict):
        raise InputError(f"{place} holds {type(record).__name__}", "one JSON object a line")
    return record


def _end_of_last_line(fd: int, block: int = 1 << 16) -> int:
    """Offset just behind the last newline; 0 when there is none."""
    end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - block)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _plain(value: Any) -> Any:
    """numpy scalars and arrays, and paths, as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _partial(path: Path) -> Path:
    return path.parent / f".{path.name}{_PARTIAL}{secrets.token_hex(4)}"


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
