import os
import re
import subprocess
import sys
from pathlib import Path

from rlvr_platform.cli.main import main
from rlvr_platform.cli.train import default_run_dir
from rlvr_platform.config import load_config

ROOT = Path(__file__).parents[3]
FILE = ROOT / "configs/dev/arithmetic.yaml"


def test_resume_without_a_folder_is_refused(capsys):
    assert main(["train", str(FILE), "--resume"]) == 2
    assert "--run-dir" in capsys.readouterr().err


def test_an_illegal_configuration_is_refused_before_anything_starts(tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["train", str(FILE), "stepz=3", "--run-dir", str(folder)]) == 2
    assert "did you mean steps?" in capsys.readouterr().err
    assert not folder.exists()


def test_the_default_folder_carries_name_and_utc_time():
    config = load_config(FILE, ["name=trial"])
    assert re.fullmatch(r"runs/trial-\d{8}T\d{6}Z", str(default_run_dir(config)))


def train_with_actors(folder: Path | None) -> subprocess.CompletedProcess[str]:
    """Run `train` where `import actors` finds what stands in `folder`, or nothing."""
    script = (
        "import sys, rlvr_platform\n"
        "sys.meta_path = [f for f in sys.meta_path if 'ditable' not in repr(f)]\n"
        f"sys.path = [p for p in sys.path if p not in ('', {str(ROOT)!r})]\n"
        f"sys.path[:0] = {[str(folder)] if folder else []!r}\n"
        "from rlvr_platform.cli.main import main\n"
        f"sys.exit(main(['train', {str(FILE)!r}]))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120
    )


def test_an_unrelated_actors_distribution_is_named_with_the_way_out(tmp_path):
    (tmp_path / "actors").mkdir()
    (tmp_path / "actors/__init__.py").write_text("class Actor: pass\n")
    done = train_with_actors(tmp_path)
    assert done.returncode == 2, done.stderr
    assert str(tmp_path / "actors") in done.stderr
    assert "pip uninstall actors" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_actors_at_all_is_said(tmp_path):
    done = train_with_actors(None)
    assert done.returncode == 2, done.stderr
    assert "cannot import actors" in done.stderr
