from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.config import load_config
from rlvr_platform.config.checkpoint import CheckpointConfig
from rlvr_platform.retention import (
    first_checkpoint_bytes,
    folder_bytes,
    kept_steps,
    metric_by_step,
)

EXAMPLE = Path(__file__).parents[2] / "configs/dev/arithmetic.yaml"
VALUES = st.dictionaries(st.integers(0, 30), st.floats(-2, 2).map(lambda x: round(x, 1)))


def settings(last: int, best: int, mode: str = "max") -> CheckpointConfig:
    return CheckpointConfig(keep_last=last, keep_best=best, best_mode=mode)


@given(VALUES, st.sets(st.integers(0, 30)), st.integers(1, 4), st.integers(0, 4), st.booleans())
def test_the_newest_and_the_best_stay_and_nothing_else(values, steps, last, best, low):
    steps = sorted(steps)
    kept = kept_steps(steps, values, settings(last, best, "min" if low else "max"))
    newest = set(steps[-last:])
    assert newest <= kept <= set(steps)
    assert len(kept) <= last + best
    sign = -1 if low else 1
    measured = [step for step in steps if step in values]
    best_kept = [step for step in measured if step in kept]
    assert len(best_kept) >= min(best, len(measured))
    for lost in set(measured) - kept:
        better = [s for s in best_kept if (sign * values[s], s) > (sign * values[lost], lost)]
        assert len(better) >= best


@given(VALUES, st.integers(1, 3), st.integers(0, 3))
def test_pruning_after_every_save_keeps_what_pruning_at_the_end_does(values, last, best):
    config, present = settings(last, best), []
    for step in range(31):
        present = sorted(kept_steps([*present, step], values, config))
    assert set(present) == kept_steps(list(range(31)), values, config)


def test_of_equal_values_the_later_stays():
    assert kept_steps([1, 2, 3, 4], {1: 0.5, 2: 0.5, 3: 0.1}, settings(1, 1)) == {2, 4}


def test_only_lines_with_the_metric_count():
    records = [{"step": 1, "a": 2.0}, {"step": 2}, {"step": 3, "a": 0.0}]
    assert metric_by_step(records, "a") == {1: 2.0, 3: 0.0}


def test_the_size_of_a_folder_is_that_of_its_files(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a").write_bytes(bytes(10))
    (tmp_path / "b").write_bytes(bytes(5))
    assert folder_bytes(tmp_path) == 15


@pytest.mark.parametrize(
    ("engine", "learner", "factor"),
    [("float32", "float32", 5), ("bfloat16", "bfloat16", 8), ("float16", "float32", 10)],
)
def test_a_first_checkpoint_is_so_many_times_what_an_update_publishes(engine, learner, factor):
    overrides = [
        f"rollout.engine.dtype={engine}",
        f"learner.dtype={learner}",
        "learner.zero_stage=1",
    ]
    config = load_config(EXAMPLE, overrides)
    assert first_checkpoint_bytes(1000, config) == 1000 * factor
