import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from rlvr_platform.config import load_config
from rlvr_platform.errors import NumericalError
from rlvr_platform.files import read_json_lines
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.sinks import EventsLog, MetricsLog

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path):
    config = load_config(ROOT / "configs/dev/arithmetic.yaml", ["steps=100"])
    folder = RunFolder.create(tmp_path / "run", config)
    yield folder
    folder.close()


def board(folder: RunFolder, tag: str) -> list[tuple[int, float]]:
    """The points TensorBoard itself shows for `tag`."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder.tensorboard)).Reload()
    return [(e.step, e.value) for e in events.Scalars(tag)]


def test_a_record_is_a_line_and_a_tensorboard_point(folder):
    log = MetricsLog(folder, tensorboard=True)
    log.write({"step": 1, "reward/mean": np.float32(0.5), "eval/held.out/avg@2": 0.25})
    log.write({"step": np.int64(2), "reward/mean": 0.75})
    log.sync()
    log.close()
    assert read_json_lines(folder.metrics) == [
        {"step": 1, "reward/mean": 0.5, "eval/held.out/avg@2": 0.25},
        {"step": 2, "reward/mean": 0.75},
    ]
    assert board(folder, "reward/mean") == [(1, 0.5), (2, 0.75)]
    assert board(folder, "eval/held.out/avg@2") == [(1, 0.25)]


def test_without_tensorboard_there_is_no_such_folder(folder):
    log = MetricsLog(folder, tensorboard=False)
    log.write({"step": 1})
    log.close()
    assert not folder.tensorboard.exists()


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"step": 4, "reward/maen": 1.0}, ValueError),
        ({"step": 4, "loss/policy": float("nan")}, NumericalError),
        ({"step": 2}, ValueError),
    ],
)
def test_a_record_that_is_refused_reaches_no_sink(folder, record, error):
    log = MetricsLog(folder, tensorboard=True)
    log.write({"step": 3, "loss/policy": 0.5})
    with pytest.raises(error):
        log.write(record)
    log.close()
    assert len(read_json_lines(folder.metrics)) == 1
    assert board(folder, "loss/policy") == [(3, 0.5)]


def test_steps_never_decrease_across_a_restart(folder):
    first = MetricsLog(folder, tensorboard=False)
    first.write({"step": 7})
    first.close()
    second = MetricsLog(folder, tensorboard=False)
    with pytest.raises(ValueError, match="step 6 after step 7"):
        second.write({"step": 6})
    second.write({"step": 7})
    second.close()


def test_tensorboard_hides_the_points_a_resume_superseded(folder):
    first = MetricsLog(folder, tensorboard=True)
    for step in range(1, 6):
        first.write({"step": step, "reward/mean": 0.0})
    first.close()
    folder.rewind(3)
    second = MetricsLog(folder, tensorboard=True)
    second.write({"step": 4, "reward/mean": 1.0})
    second.close()
    assert board(folder, "reward/mean") == [(1, 0.0), (2, 0.0), (3, 0.0), (4, 1.0)]


def test_events_have_a_time_a_kind_and_their_fields(folder):
    log = EventsLog(folder)
    log.write("checkpoint", step=3, path=folder.checkpoint(3))
    log.close()
    (event,) = read_json_lines(folder.events)
    assert datetime.fromisoformat(event.pop("time")).tzinfo is not None
    assert event == {"kind": "checkpoint", "step": 3, "path": str(folder.checkpoint(3))}


def test_writing_event_files_needs_neither_torch_nor_tensorflow(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from rlvr_platform.telemetry.sinks import TensorBoard\n"
        "TensorBoard(Path(sys.argv[1]), first_step=0).write({'step': 1, 'reward/mean': 1.0})\n"
        "assert not {'torch', 'tensorflow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=ROOT, timeout=60)


def test_a_missing_tensorboard_package_names_the_setting(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    with pytest.raises(Exception, match=r"telemetry.tensorboard=false"):
        MetricsLog(folder, tensorboard=True)
