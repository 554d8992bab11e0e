import multiprocessing
import os
import time
from pathlib import Path

import pytest

from rlvr_platform.models.cache import cache_root, cached_model

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("RLVR_CACHE", str(tmp_path))
    return tmp_path / "models"


def build_slowly(folder: Path) -> None:
    (folder / "part").write_text("half")
    time.sleep(0.3)
    with (folder.parent / "builds").open("a") as log:
        log.write("x")
    (folder / "weights").write_text("whole")


def start(name: str) -> None:
    assert (cached_model(name, build_slowly) / "weights").read_text() == "whole"


def start_and_die(name: str) -> None:
    def build(folder: Path) -> None:
        (folder / "weights").write_text("half")
        os._exit(9)

    cached_model(name, build)


def run(*targets):
    processes = [SPAWN.Process(target=target, args=("m",)) for target in targets]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def test_starts_at_the_same_time_build_once_and_all_get_the_whole(root):
    assert run(start, start, start) == [0, 0, 0]
    assert (root / "builds").read_text() == "x"


def test_a_build_that_died_is_built_again_and_leaves_nothing(root):
    assert run(start_and_die) == [9]
    assert not (root / "m").exists()
    start("m")
    assert [p.name for p in root.iterdir() if p.is_dir()] == ["m"]


def test_a_build_that_failed_leaves_nothing(root):
    def fail(folder):
        (folder / "weights").write_text("half")
        raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck"):
        cached_model("m", fail)
    assert [p for p in root.iterdir() if p.is_dir()] == []


def test_a_second_call_does_not_build():
    first = cached_model("m", lambda folder: (folder / "a").write_text("1"))
    assert cached_model("m", lambda _: pytest.fail("built twice")) == first


def test_where_the_cache_is(monkeypatch, tmp_path):
    assert cache_root() == tmp_path
    monkeypatch.delenv("RLVR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_root() == Path("/xdg/rlvr")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/x")
    assert cache_root() == Path("/home/x/.cache/rlvr")


def test_only_the_user_can_replace_what_the_cache_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("RLVR_CACHE", str(tmp_path / "cache"))
    before = os.umask(0)
    try:
        cached_model("m", lambda folder: (folder / "weights").touch())
    finally:
        os.umask(before)
    for folder in (tmp_path / "cache", tmp_path / "cache" / "models"):
        assert folder.stat().st_mode & 0o777 == 0o700
