import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_platform.errors import ClusterError, InputError
from rlvr_platform.files import (
    CHECKSUMS,
    JsonLines,
    atomic_folder,
    check_space,
    disk_errors,
    full_disk,
    read_json_lines,
    remove_folder,
    remove_partials,
    verify_checksums,
    write_atomic,
)

ROOT = Path(__file__).parents[2]


def run_until_killed(code: str, *arguments: Path) -> None:
    """Run `code` in a process of its own; kill -9 it soon after it says it is at work."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    process.stdout.close()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Stands in for a disk that fills: the kernel takes part of a write, then none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_atomic_write_replaces_the_content_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    write_atomic(path, "old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_kill_during_atomic_writes_leaves_one_whole_content(tmp_path):
    path = tmp_path / "a.txt"
    code = (
        "import sys; from pathlib import Path; from rlvr_platform.files import write_atomic\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for c in 'ab': write_atomic(Path(sys.argv[1]), c * 300_000)\n"
    )
    run_until_killed(code, path)
    content = path.read_text()
    assert content in ("a" * 300_000, "b" * 300_000)


def test_a_full_disk_is_reported_and_the_old_content_stays(tmp_path):
    path = tmp_path / "a.txt"
    write_atomic(path, "old")
    with pytest.raises(InputError, match=r"cannot write .*a.txt"), file_size_limit(1000):
        write_atomic(path, "x" * 5000)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_place_that_cannot_be_written_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose a folder you may write"):
        write_atomic(tmp_path / "file" / "a.txt", "x")


def test_too_little_space_is_reported_also_for_a_folder_yet_to_come(tmp_path):
    check_space(tmp_path / "new" / "run", 1)
    with pytest.raises(InputError, match="GiB free"):
        check_space(tmp_path / "new" / "run", 1 << 60)


def write_sample(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "weights").write_bytes(bytes(range(256)))
    (folder / "inner" / "state.json").write_text("{}")


def test_an_atomic_folder_holds_when_verified(tmp_path):
    with atomic_folder(tmp_path / "done") as folder:
        write_sample(folder)
        assert not (tmp_path / "done").exists()
    verify_checksums(tmp_path / "done")
    assert os.listdir(tmp_path) == ["done"]
    listed = json.loads((tmp_path / "done" / CHECKSUMS).read_text())
    assert sorted(listed) == ["inner/state.json", "weights"]


def test_an_error_inside_an_atomic_folder_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "done") as folder:
        write_sample(folder)
        _ = 1 / 0
    assert os.listdir(tmp_path) == []


def test_an_atomic_folder_never_replaces_what_is_there(tmp_path):
    with atomic_folder(tmp_path / "done") as folder:
        write_sample(folder)
    with pytest.raises(InputError, match="exists"), atomic_folder(tmp_path / "done"):
        pass
    verify_checksums(tmp_path / "done")


@settings(max_examples=40, deadline=None)
@given(position=st.integers(0, 255), bit=st.integers(0, 7))
def test_one_flipped_bit_is_found_and_its_file_named(tmp_path_factory, position, bit):
    done = tmp_path_factory.mktemp("x") / "done"
    with atomic_folder(done) as folder:
        write_sample(folder)
    content = bytearray((done / "weights").read_bytes())
    content[position] ^= 1 << bit
    (done / "weights").write_bytes(content)
    with pytest.raises(InputError, match="weights is damaged"):
        verify_checksums(done)


def test_a_missing_file_or_list_is_named(tmp_path):
    with atomic_folder(tmp_path / "done") as folder:
        write_sample(folder)
    (tmp_path / "done" / "inner" / "state.json").unlink()
    with pytest.raises(InputError, match=r"state.json is missing"):
        verify_checksums(tmp_path / "done")
    (tmp_path / "done" / CHECKSUMS).write_text("[]")
    with pytest.raises(InputError, match="holds list"):
        verify_checksums(tmp_path / "done")
    (tmp_path / "done" / CHECKSUMS).unlink()
    with pytest.raises(InputError, match="cannot read"):
        verify_checksums(tmp_path / "done")


def test_a_kill_inside_an_atomic_folder_leaves_only_what_cleaning_removes(tmp_path):
    code = (
        "import sys, time; from pathlib import Path\n"
        "from rlvr_platform.files import atomic_folder\n"
        "with atomic_folder(Path(sys.argv[1])) as f:\n"
        "    (f / 'a').write_text('x'); print('ready', flush=True); time.sleep(60)\n"
    )
    run_until_killed(code, tmp_path / "done")
    assert not (tmp_path / "done").exists()
    assert remove_partials(tmp_path) == 1
    assert os.listdir(tmp_path) == []


def test_a_removed_folder_is_gone(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("")
    remove_folder(tmp_path / "a")
    assert os.listdir(tmp_path) == []


RECORDS = st.lists(
    st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=2), max_size=6
)


@settings(max_examples=40, deadline=None)
@given(records=RECORDS, data=st.data())
def test_a_file_cut_anywhere_keeps_its_whole_lines_and_its_torn_bytes(
    tmp_path_factory, records, data
):
    path = tmp_path_factory.mktemp("x") / "a.jsonl"
    lines = JsonLines(path)
    ends = [0]
    for record in records:
        lines.write(record)
        ends.append(path.stat().st_size)
    lines.close()
    cut = data.draw(st.integers(0, ends[-1]))
    os.truncate(path, cut)
    whole = sum(end <= cut for end in ends) - 1
    torn = path.read_bytes()[ends[whole] :]
    assert read_json_lines(path) == records[:whole]

    lines = JsonLines(path)
    lines.write({"new": "line"})
    lines.close()
    assert read_json_lines(path) == [*records[:whole], {"new": "line"}]
    kept = Path(f"{path}.torn")
    assert (kept.read_bytes() if kept.exists() else b"") == (torn + b"\n" if torn else b"")


def test_a_torn_line_longer_than_a_block_is_repaired(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": "' + b"x" * 200_000)
    JsonLines(path).close()
    assert path.read_bytes() == b'{"a": 1}\n'


def test_lines_written_before_a_kill_are_whole_and_in_order(tmp_path):
    path = tmp_path / "a.jsonl"
    code = (
        "import sys, itertools; from pathlib import Path\n"
        "from rlvr_platform.files import JsonLines\n"
        "lines = JsonLines(Path(sys.argv[1])); print('ready', flush=True)\n"
        "for i in itertools.count(): lines.write({'i': i, 'text': 'x' * 3000})\n"
    )
    run_until_killed(code, path)
    assert path.read_bytes().endswith(b"\n")
    written = [record["i"] for record in read_json_lines(path)]
    assert len(written) > 1
    assert written == list(range(len(written)))


def test_a_disk_that_fills_within_a_line_leaves_whole_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = JsonLines(path)
    lines.write({"a": 1})
    with pytest.raises(ClusterError, match="free some space"), file_size_limit(100):
        lines.write({"text": "x" * 500})
    lines.close()
    assert path.read_bytes() == b'{"a": 1}\n'


def test_numpy_values_and_paths_are_written_as_plain_json(tmp_path):
    lines = JsonLines(tmp_path / "a.jsonl")
    lines.write({"n": np.int64(3), "x": np.float32(0.5), "a": np.arange(2), "p": Path("/a")})
    lines.sync()
    lines.close()
    assert read_json_lines(tmp_path / "a.jsonl") == [{"n": 3, "x": 0.5, "a": [0, 1], "p": "/a"}]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_json_cannot_hold_is_refused_and_not_half_written(tmp_path, value):
    lines = JsonLines(tmp_path / "a.jsonl")
    with pytest.raises((ValueError, TypeError)):
        lines.write({"x": value})
    lines.close()
    assert (tmp_path / "a.jsonl").read_bytes() == b""


@pytest.mark.parametrize("line", [b"{broken", b"[1]"])
def test_a_line_that_is_no_object_is_named_by_number(tmp_path, line):
    (tmp_path / "a.jsonl").write_bytes(b"{}\n" + line + b"\n")
    with pytest.raises(InputError, match=r"a.jsonl:2"):
        read_json_lines(tmp_path / "a.jsonl")


def test_a_missing_file_of_lines_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_json_lines(tmp_path / "a.jsonl")


def test_a_full_disk_is_not_the_users_input():
    full = Path("/dev/full")
    with pytest.raises(ClusterError, match=r"No space left(.|\n)*free some"), disk_errors(full):
        full.write_text("x")
    assert ClusterError.exit_code == 3


def test_a_full_disk_is_recognised_in_anybodys_words_and_other_errors_pass(tmp_path):
    path, need = tmp_path / "a", 2**31
    with (
        pytest.raises(ClusterError, match=r"became full(.|\n)*2.00 GiB"),
        full_disk(path, need),
    ):
        raise RuntimeError("I/O error: No space left on device (os error 28)")
    with pytest.raises(RuntimeError, match="another matter"), full_disk(path, need):
        raise RuntimeError("another matter")
