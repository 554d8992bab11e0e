from typing import Any

import pytest
from pydantic import ValidationError

from rlvr_platform.config.replay import NoReuse, PrioritisedReuse, ReplayConfig


def test_nothing_is_reused_unless_asked_for() -> None:
    assert ReplayConfig().reuse == NoReuse()


def test_kind_selects_the_section() -> None:
    config = ReplayConfig.model_validate({"reuse": {"kind": "prioritised", "ratio": 0.25}})
    assert config.reuse == PrioritisedReuse(ratio=0.25)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_age": None}, "eviction=age needs max_age"),
        ({"eviction": "capacity"}, "set max_age=null"),
        ({"max_age": -1}, "max_age"),
        ({"ratio": 0.0}, "ratio"),
        ({"alpha": -0.5}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"max_gib": float("inf")}, "max_gib"),
        ({"priority": "std"}, "priority"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PrioritisedReuse(**changes)


def test_eviction_by_capacity_has_no_age() -> None:
    assert PrioritisedReuse(eviction="capacity", max_age=None).max_age is None
