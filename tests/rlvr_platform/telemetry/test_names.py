import json

import numpy as np
import pytest

from rlvr_platform.errors import NumericalError
from rlvr_platform.telemetry.names import METRICS, PATTERNS, check, is_registered


def test_every_registered_name_passes_and_is_unique():
    check({metric.name: 1.0 for metric in METRICS})
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_every_metric_has_a_unit_and_sentences():
    for metric in METRICS + PATTERNS:
        assert metric.unit
        assert metric.meaning[0].isupper() or metric.meaning.startswith("k3"), metric
        assert metric.meaning.endswith("."), metric


@pytest.mark.parametrize("pattern", [p.name for p in PATTERNS])
def test_every_pattern_matches_its_own_form(pattern):
    assert is_registered(pattern.replace("SUITE", "gsm8k-v1.0_x").replace("@k", "@16"))


@pytest.mark.parametrize(
    "name",
    [
        "reward/maen",
        "eval/a/b/avg@1",
        "eval//avg@1",
        "eval/a/avg@0",
        "eval/a/avg@k",
        "eval/a/length",
        "step ",
        "",
    ],
)
def test_any_other_name_is_refused(name):
    with pytest.raises(ValueError, match="not a registered metric"):
        check({"step": 1, name: 1.0})


def test_a_typo_is_answered_with_the_nearest_name():
    with pytest.raises(ValueError, match="did you mean reward/mean"):
        check({"step": 1, "reward/maen": 1.0})


def test_a_record_without_its_step_is_refused():
    with pytest.raises(ValueError, match="step"):
        check({"reward/mean": 1.0})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -np.float32("inf")])
def test_a_value_that_is_not_finite_is_refused_by_name_and_step(value):
    with pytest.raises(NumericalError, match=r"loss/policy is .* at step 3"):
        check({"step": 3, "loss/policy": value})


def test_numpy_scalars_and_integers_pass_and_are_json_later():
    record = {"step": 1, "reward/mean": np.float32(0.5), "tokens/trained": np.int64(3)}
    check(record)
    assert json.dumps({name: value.item() for name, value in list(record.items())[1:]})
