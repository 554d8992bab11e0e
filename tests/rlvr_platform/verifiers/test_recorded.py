import numpy as np
import pytest

from rlvr_platform.errors import InputError
from rlvr_platform.telemetry.rollouts import Recorded, write_rollouts
from rlvr_platform.types import (
    Fate,
    GradedGroup,
    Outcome,
    Prompt,
    RolloutGroup,
    Ticket,
    Verdict,
    summarise,
)
from rlvr_platform.verifiers.recorded import recorded_rows, rollout_files

VERDICTS = (
    Verdict(Outcome.CORRECT, 1.0, "a", "box", 0.5),
    Verdict(Outcome.ERROR, None, "", "x", 1),
)


def recorded(step, fates):
    prompt = Prompt(3, "?", np.zeros(1, np.int32), "a", "test", {"choices": ["a", "b"]})
    group = RolloutGroup(
        ticket=Ticket(9, step, prompt, 2, 0),
        tokens=np.zeros(2, np.int32),
        offsets=np.arange(3, dtype=np.int64),
        loss_mask=np.ones(2, bool),
        logprobs=np.zeros(2, np.float32),
        versions=np.zeros(2, np.int32),
        finish=np.zeros(2, np.uint8),
        texts=("first", "second"),
    )
    graded = GradedGroup(summarise(group, 1.0), VERDICTS, group)
    return Recorded(group, graded, np.zeros(2), np.array(fates), np.arange(2))


@pytest.fixture
def run(tmp_path):
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "config.yaml").touch()
    first = recorded(1, [Fate.TRAINED, Fate.POOLED])
    again = recorded(1, [Fate.REPLAYED, Fate.REPLAYED])
    write_rollouts(tmp_path / "rollouts/step-000001.parquet", [first])
    write_rollouts(tmp_path / "rollouts/step-000002.parquet", [again, recorded(2, [0, 0])])
    return tmp_path


def test_every_rollout_comes_once_with_its_options_and_verdict(run):
    rows = list(recorded_rows(rollout_files(run, None)))
    assert [row.id for row in rows] == ["1/9/0", "1/9/1", "2/9/0", "2/9/1"]
    assert [row.item.prediction for row in rows[:2]] == ["first", "second"]
    assert all(row.item.options == {"choices": ["a", "b"]} for row in rows)
    assert all(row.item.gold == "a" for row in rows)
    assert tuple(row.verdict for row in rows[:2]) == VERDICTS


def test_one_step_is_one_file(run):
    assert [row.id for row in recorded_rows(rollout_files(run, 2))] == ["2/9/0", "2/9/1"]


@pytest.mark.parametrize(("folder", "step"), [("absent", None), (".", 7)])
def test_what_is_not_there_is_an_input_error(run, folder, step):
    with pytest.raises(InputError):
        rollout_files(run / folder, step)


def test_a_damaged_file_is_an_input_error(run):
    (run / "rollouts/step-000001.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match="step-000001"):
        list(recorded_rows(rollout_files(run, 1)))
