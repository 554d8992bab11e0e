import json
from collections import namedtuple
from types import SimpleNamespace

import pytest

from rlvr_platform.cli import doctor
from rlvr_platform.cli.main import main

HEALTHY = {"version": "2", "cuda": None, "devices": [], "updates": [-0.1, 0.1, -0.1, 0.1]}
Usage = namedtuple("Usage", "total used free")


@pytest.mark.slow
def test_this_machine_passes_and_reports_as_json(capsys):
    assert main(["doctor", "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert all(check["status"] != "fail" for check in checks.values())
    assert {"torch", "optimizer", "engine", "compiler", "ninja", "shared memory"} <= set(checks)


def test_a_failing_check_ends_with_3_and_prints_its_fix(monkeypatch, capsys):
    checks = [doctor.Check("a", "ok", "fine"), doctor.Check("b", "fail", "broken", "mend b")]
    monkeypatch.setattr(doctor, "examine", lambda: iter(checks))
    assert main(["doctor"]) == 3
    out = capsys.readouterr().out
    assert "to fix: mend b" in out
    assert out.endswith("1 ok, 0 warn, 1 fail\n")


def test_a_warning_alone_ends_with_0(monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda: iter([doctor.Check("a", "warn", "low")]))
    assert main(["doctor"]) == 0


def test_a_part_that_is_not_installed_fails():
    assert doctor.check_part("no-such-distribution").status == "fail"


def test_no_compiler_fails_with_the_package_to_install(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    check = doctor.check_compiler()
    assert check.status == "fail"
    assert "g++" in check.fix


@pytest.mark.parametrize(("free_gib", "status"), [(0.5, "fail"), (1.0, "ok"), (30.0, "ok")])
def test_shared_memory_under_a_gibibyte_fails(monkeypatch, free_gib, status):
    usage = Usage(0, 0, int(free_gib * doctor.GIB))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: usage)
    assert doctor.check_shared_memory().status == status


@pytest.mark.parametrize(
    ("change", "name", "status"),
    [
        ({}, "optimizer", "ok"),
        ({"updates": [-0.1, 0.1, -0.1, -0.1]}, "optimizer", "fail"),
        ({"cuda": "13.0"}, "devices", "warn"),
        ({"cuda": "13.0", "devices": ["H200"]}, "devices", "ok"),
        ({"error": "ImportError: torch"}, "torch", "fail"),
    ],
)
def test_what_torch_says_is_judged(change, name, status):
    checks = {check.name: check.status for check in doctor.check_torch(HEALTHY | change)}
    assert checks[name] == status


@pytest.mark.parametrize("probe", [{"error": "ImportError"}, {"version": "1", "device": ""}])
def test_an_engine_that_does_not_import_or_finds_no_device_fails(probe):
    assert doctor.check_engine(probe).status == "fail"


def test_a_probe_that_dies_gives_its_last_words():
    assert doctor._probe("raise OSError('libfoo is missing')") == {
        "error": "OSError: libfoo is missing"
    }


def test_a_probe_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(doctor, "PROBE_TIMEOUT_S", 0.5)
    assert "no answer" in doctor._probe("import time; time.sleep(60)")["error"]


def test_another_actors_package_fails(monkeypatch):
    monkeypatch.setitem(doctor.sys.modules, "actors", SimpleNamespace(__path__=["/elsewhere"]))
    check = doctor.check_actors()
    assert check.status == "fail"
    assert "/elsewhere" in check.found


def test_a_missing_sandbox_is_a_warning_that_says_who_needs_it(monkeypatch):
    status = SimpleNamespace(ok=False, message="bwrap is not installed", fix="install bubblewrap")
    monkeypatch.setattr(doctor, "sandbox_status", lambda: status)
    check = doctor.check_sandbox()
    assert (check.status, check.found) == ("warn", "bwrap is not installed")
    assert "install bubblewrap" in check.fix and "kind=code" in check.fix
