"""A short part of `make chaos`: one real run that loses three processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_platform.config.model import ArithmeticModel
from rlvr_platform.models.resolve import resolve_model
from tests.chaos.faults import Role
from tests.chaos.kills import Kill, killed
from tests.chaos.live import start

pytestmark = pytest.mark.slow
STEPS = 10


@pytest.fixture(scope="module", autouse=True)
def built_model() -> None:
    """Build the arithmetic model, minutes on a fresh machine, outside any run's deadline."""
    resolve_model(ArithmeticModel())


def test_a_run_outlives_its_killed_processes(tmp_path: Path) -> None:
    """It ends with every step and every rollout accounted for once, and leaves nothing."""
    kills = [
        Kill(Role.ENGINE, 2, 0.5, 0),
        Kill(Role.REPLAY_BUFFER, 5, 0.3, 0),
        Kill(Role.LEARNER, 7, 0.4, 1),
    ]
    with start(tmp_path / "run", [f"steps={STEPS}"]) as live:
        found = killed(live, kills, STEPS)
    assert [outcome.problems for outcome in found] == [[] for _ in kills]
