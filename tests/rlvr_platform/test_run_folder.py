import gc
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_platform.config import ExperimentConfig, load_config
from rlvr_platform.config.checkpoint import CheckpointConfig
from rlvr_platform.errors import ClusterError, InputError
from rlvr_platform.files import JsonLines, atomic_folder, read_json_lines, verify_checksums
from rlvr_platform.run_folder import RunFolder

EXAMPLE = Path(__file__).parents[2] / "configs/dev/arithmetic.yaml"


def config(*overrides: str) -> ExperimentConfig:
    return load_config(EXAMPLE, ["steps=100", *overrides])


def save(folder: RunFolder, step: int) -> None:
    with atomic_folder(folder.checkpoint(step)) as temporary:
        (temporary / "weights").write_text(f"weights of {step}")


def damage(folder: RunFolder, step: int) -> None:
    (folder.checkpoint(step) / "weights").write_text("changed")


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder.create(tmp_path / "run", config())
    yield folder
    folder.close()


def test_a_new_folder_is_private_and_says_what_runs(folder):
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert load_config(folder.config) == config()
    manifest = json.loads(folder.manifest.read_text())
    assert manifest["packages"]["numpy"]
    assert manifest["seeds"]["run"] == 0
    assert manifest["hardware"]["gpus"] == []


def test_an_empty_folder_is_accepted_and_keeps_its_permissions(tmp_path):
    (tmp_path / "run").mkdir(mode=0o755)
    RunFolder.create(tmp_path / "run", config()).close()
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o755


def test_a_start_killed_before_its_configuration_was_written_can_be_repeated(folder):
    folder.close()
    folder.config.unlink()
    RunFolder.create(folder.path, config()).close()


def test_a_folder_with_content_is_refused_untouched(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"holds thesis.tex(.|\n)*--resume(.|\n)*--run-dir"):
        RunFolder.create(tmp_path / "run", config())
    assert os.listdir(tmp_path / "run") == ["thesis.tex"]


def test_an_existing_run_is_never_started_over(folder):
    folder.close()
    with pytest.raises(InputError, match="--resume"):
        RunFolder.create(folder.path, config())


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(InputError, match="is a file"):
        RunFolder.create(tmp_path / "run", config())
    with pytest.raises(InputError, match="cannot write"):
        RunFolder.create(tmp_path / "run" / "inner", config())


def test_a_full_disk_stops_the_start_before_anything_is_made(tmp_path):
    with pytest.raises(InputError, match="GiB free"):
        RunFolder.create(tmp_path / "run", config(), min_free_bytes=1 << 60)
    assert os.listdir(tmp_path) == []


def test_a_run_has_one_writer_at_a_time(folder):
    with pytest.raises(InputError, match="another process is writing"):
        RunFolder.resume(folder.path, config())
    folder.close()
    RunFolder.resume(folder.path, config()).close()


def test_resuming_what_is_no_run_is_refused(tmp_path):
    for place in (tmp_path / "missing", tmp_path):
        with pytest.raises(InputError, match="holds no run"):
            RunFolder.resume(place, config())


def test_resuming_with_another_configuration_names_every_key_and_changes_nothing(folder):
    folder.close()
    before = folder.config.read_text(), folder.manifest.read_text()
    with pytest.raises(InputError) as caught:
        RunFolder.resume(folder.path, config("seed=7", "rollout.temperature=0.5"))
    assert "seed: 0 -> 7" in str(caught.value)
    assert "rollout.temperature: 1.0 -> 0.5" in str(caught.value)
    assert (folder.config.read_text(), folder.manifest.read_text()) == before


def test_a_resume_with_allowed_changes_is_recorded(folder):
    folder.close()
    longer = config("steps=200")
    RunFolder.resume(folder.path, longer, gpus=["H200"]).close()
    assert load_config(folder.config) == longer
    (resume,) = json.loads(folder.manifest.read_text())["resumes"]
    assert resume["changed"] == {"steps": {"from": 100, "to": 200}}
    assert resume["hardware"]["gpus"] == ["H200"]


def test_a_resume_without_its_manifest_is_refused(folder):
    folder.close()
    folder.manifest.unlink()
    with pytest.raises(InputError, match=r"cannot read .*manifest.json"):
        RunFolder.resume(folder.path, config())


def test_a_resume_clears_what_killed_writes_left(folder):
    folder.close()
    (folder.checkpoints / ".step-000010.partial-0a").mkdir()
    (folder.path / ".config.yaml.partial-0b").write_text("")
    RunFolder.resume(folder.path, config()).close()
    assert list(folder.path.rglob("*partial*")) == []


def test_the_newest_checkpoint_is_found(folder):
    assert folder.latest_checkpoint().found is None
    for step in (5, 10, 1_000_000):
        save(folder, step)
    found = folder.latest_checkpoint()
    assert (found.found.step, found.found.path) == (1_000_000, folder.checkpoint(1_000_000))
    assert found.damaged == ()


def test_a_damaged_checkpoint_is_passed_over_and_reported(folder):
    save(folder, 5)
    save(folder, 10)
    damage(folder, 10)
    found = folder.latest_checkpoint()
    assert found.found.step == 5
    assert len(found.damaged) == 1
    assert "step-000010/weights" in found.damaged[0]


def test_a_run_whose_checkpoints_are_all_damaged_does_not_silently_start_over(folder):
    save(folder, 5)
    damage(folder, 5)
    with pytest.raises(InputError, match="every checkpoint is damaged"):
        folder.latest_checkpoint()


def write_metrics(folder: RunFolder, *records: dict[str, float]) -> None:
    metrics = JsonLines(folder.metrics)
    for record in records:
        metrics.write(record)
    metrics.close()


def test_the_best_by_a_metric_outlive_the_newest(folder):
    config = CheckpointConfig(keep_last=1, keep_best=2, best_metric="reward/mean")
    rewards = {5: 0.1, 10: 0.9, 15: 0.3, 20: 0.5, 25: 0.2}
    for step, reward in rewards.items():
        write_metrics(folder, {"step": step, "reward/mean": reward})
        save(folder, step)
        kept = folder.retain_checkpoints(config)
        assert kept.measured
    assert sorted(os.listdir(folder.checkpoints)) == ["step-000010", "step-000020", "step-000025"]
    save(folder, 30)
    assert not folder.retain_checkpoints(config).measured
    assert folder.latest_checkpoint().found.step == 30
    assert folder.checkpoint(10).is_dir()


def test_without_best_no_metric_is_missed(folder):
    for step in (5, 10):
        save(folder, step)
    retained = folder.retain_checkpoints(CheckpointConfig(keep_last=1))
    assert retained.removed == (folder.checkpoint(5),)
    assert retained.measured


def test_a_checkpoint_that_has_no_room_is_refused_before_anything_is_written(folder, monkeypatch):
    save(folder, 5)
    (folder.checkpoint(5) / "optimizer").write_bytes(bytes(3 << 20))
    monkeypatch.setattr("rlvr_platform.run_folder.free_space", lambda path: (3 << 20, path))
    refusal = r"step-000010: 3.0 MiB free(.|\n)*--resume"
    with pytest.raises(ClusterError, match=refusal), folder.new_checkpoint(10):
        pytest.fail("went on to write")
    assert os.listdir(folder.checkpoints) == ["step-000005"]
    monkeypatch.setattr("rlvr_platform.run_folder.free_space", lambda path: (4 << 20, path))
    with folder.new_checkpoint(10) as temporary:
        (temporary / "weights").write_text("x")
    verify_checksums(folder.checkpoint(10))


def test_the_first_checkpoint_is_judged_by_the_weights_that_were_published(folder, monkeypatch):
    write_metrics(folder, {"step": 1, "sync/bytes": 40e9})
    assert config().learner.dtype == config().rollout.engine.dtype == "float32"
    # 10e9 parameters: 4 + 4 for the weights, 12 for the master weights and both moments.
    monkeypatch.setattr("rlvr_platform.run_folder.free_space", lambda path: (200 * 10**9, path))
    with pytest.raises(ClusterError, match=r"about 204\.\d\d GiB"), folder.new_checkpoint(1):
        pass
    monkeypatch.setattr("rlvr_platform.run_folder.free_space", lambda path: (221 * 10**9, path))
    with folder.new_checkpoint(1):
        pass


def write_plainly(path: Path, size: int) -> None:
    path.write_bytes(bytes(size))


def write_with_torch(path: Path, size: int) -> None:
    import torch

    torch.save({"moments": torch.zeros(size, dtype=torch.uint8)}, path)


def write_with_safetensors(path: Path, size: int) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({"weights": torch.zeros(size, dtype=torch.uint8)}, path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "rlvr-test", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a file system is not permitted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("write", [write_plainly, write_with_torch, write_with_safetensors])
def test_a_disk_that_fills_while_a_checkpoint_is_written_leaves_the_older_ones(small_disk, write):
    folder = RunFolder.create(small_disk / "run", config(), min_free_bytes=0)
    with folder.new_checkpoint(5) as temporary:
        write(temporary / "weights", 1 << 20)
    with pytest.raises(ClusterError) as caught, folder.new_checkpoint(10) as temporary:
        write(temporary / "weights", 8 << 20)
    message = str(caught.value)
    assert "became full" in message and "about 1.1 MiB" in message
    assert str(folder.checkpoint(10)) in message
    assert caught.value.exit_code == 3
    # A traceback holds torch's writer, and that its file's space.
    del caught
    gc.collect()
    assert os.listdir(folder.checkpoints) == ["step-000005"]
    assert folder.latest_checkpoint().found.step == 5
    with folder.new_checkpoint(10) as temporary:
        write(temporary / "weights", 1 << 20)
    folder.close()


@settings(max_examples=25, deadline=None)
@given(last=st.integers(0, 8), stops=st.lists(st.integers(0, 8), min_size=1, max_size=3))
def test_rewinding_leaves_no_later_step_and_loses_nothing(tmp_path_factory, last, stops):
    folder = RunFolder.create(tmp_path_factory.mktemp("x") / "run", config())
    written = 0
    for stop in stops:
        records = read_json_lines(folder.metrics) if folder.metrics.exists() else []
        start = records[-1]["step"] + 1 if records else 0
        metrics = JsonLines(folder.metrics)
        for step in range(start, last + 1):
            metrics.write({"step": step})
            folder.rollouts(step).write_text("")
            written += 1
        metrics.close()
        rewound = folder.rewind(stop)
        kept = [r["step"] for r in read_json_lines(folder.metrics)]
        assert kept == list(range(min(stop, last) + 1))
        assert rewound.metric_lines == rewound.rollout_files == max(0, last - stop)
    aside = folder.path / "metrics.superseded.jsonl"
    cut = read_json_lines(aside) if aside.exists() else []
    assert len(kept) + len(cut) == written == len(os.listdir(folder.path / "rollouts"))
    assert sorted(p.name for p in (folder.path / "rollouts").glob("*.parquet")) == [
        folder.rollouts(step).name for step in kept
    ]
    folder.close()


def test_rewinding_frees_the_name_of_a_damaged_later_checkpoint(folder):
    save(folder, 5)
    save(folder, 10)
    damage(folder, 10)
    assert folder.rewind(5).checkpoints == 1
    save(folder, 10)
    assert folder.latest_checkpoint().found.step == 10
    assert (folder.checkpoints / "step-000010.superseded-1").is_dir()
