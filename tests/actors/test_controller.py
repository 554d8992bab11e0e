"""The loop over plain objects: order, lag, versions, interruption. No Ray, no engine."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.controller import Controller, Interrupted
from rlvr_platform.allocation.uniform import uniform
from rlvr_platform.config import ExperimentConfig, load_config
from rlvr_platform.config.replay import PrioritisedReuse
from rlvr_platform.errors import ClusterError, SyncError, VerifierError, WeightsLost
from rlvr_platform.ports import Ports
from rlvr_platform.preparation import Data
from rlvr_platform.recorder import Recorder
from rlvr_platform.replay.buffer import BufferState, RolloutBuffer
from rlvr_platform.replay.experience import ExperienceReplay
from rlvr_platform.replay.records import Draw
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.live import LiveView
from rlvr_platform.training_state import TrainingState
from rlvr_platform.types import (
    Allocation,
    FinishedGroups,
    GradedGroup,
    GradedGroups,
    GroupSummary,
    LearnerReport,
    LoadReport,
    Observation,
    Outcome,
    Prompt,
    Quarantined,
    Ticket,
    TrainBatch,
    Verdict,
    WeightSnapshot,
)

ROOT = Path(__file__).parents[2]
PROMPTS = [Prompt(i, "", np.zeros(2, np.int32), "", "train") for i in range(10)]


class World:
    """All five ports in one process, with a log of what happened in which order."""

    def __init__(self, config: ExperimentConfig, seed: int = 0) -> None:
        self.version = 0
        self.log: list[tuple[Any, ...]] = []
        self.prompts: dict[int, list[int]] = {}
        self.batches: list[TrainBatch] = []
        self.outcomes = [Outcome.CORRECT, Outcome.WRONG]
        self.breaks_at: int | None = None
        self.poison: set[int] = set()
        self.lost_weights = 0
        self._rng = np.random.default_rng(seed)
        self._config = config
        self._buffer = RolloutBuffer(config.replay.capacity_groups)
        reuse = config.replay.reuse
        stored = reuse if isinstance(reuse, PrioritisedReuse) else PrioritisedReuse()
        self._experience = ExperienceReplay(stored, config.seed)
        self._taken: dict[int, list[GradedGroup]] = {}
        self.observed: list[Observation] = []
        self.decided_after: list[int] = []
        self._changed = asyncio.Condition()

    @property
    def ports(self) -> Ports:
        return Ports(self, self, self, self, self)  # type: ignore[arg-type]

    async def stream(
        self, tickets: Sequence[Ticket], temperature: float
    ) -> AsyncIterator[FinishedGroups | Quarantined]:
        self.prompts.setdefault(tickets[0].step, []).extend(t.prompt.index for t in tickets)
        for i in self._rng.permutation(len(tickets)):
            await asyncio.sleep(float(self._rng.uniform(0, 0.002)))
            if tickets[i].step == self.breaks_at:
                raise RuntimeError("the engine broke")
            if tickets[i].prompt.index in self.poison:
                yield Quarantined(tickets[i], "engines die over it")
                continue
            yield FinishedGroups((self._summary(tickets[i]),), handle=(tickets[i].group_id,))

    def _summary(self, ticket: Ticket) -> GroupSummary:
        ones = np.ones(ticket.n, np.int32)
        born = np.full(ticket.n, self.version, np.int32)
        finish = np.zeros(ticket.n, np.uint8)
        return GroupSummary(
            ticket.group_id, ticket.step, ticket.prompt.index, 2, ones, ones, born, finish, 0.1, 9
        )

    async def grade(self, groups: FinishedGroups) -> GradedGroups:
        sizes = [summary.size for summary in groups.summaries]
        outcomes = [self.outcomes_of(summary.group_id) for summary in groups.summaries]
        graded = [[Verdict(o, _reward(o), "", "test", 0.0) for o in own] for own in outcomes]
        return GradedGroups(
            groups, tuple(tuple((own * n)[:n]) for own, n in zip(graded, sizes, strict=True))
        )

    def outcomes_of(self, group_id: int) -> list[Outcome]:
        return self.outcomes

    async def expect(self, step: int, group_ids: Sequence[int], more: bool) -> None:
        async with self._changed:
            if group_ids:
                await self._changed.wait_for(lambda: not self._buffer.full)
            self._buffer.expect(step, group_ids, more)
            self._changed.notify_all()

    async def insert(self, groups: GradedGroups) -> None:
        finished = groups.finished
        async with self._changed:
            for parts in zip(finished.summaries, groups.verdicts, finished.handle, strict=True):
                self._buffer.insert(GradedGroup(*parts))
            self._changed.notify_all()

    async def take(self, step: int) -> tuple[list[GradedGroup], BufferState]:
        async with self._changed:
            await self._changed.wait_for(lambda: self._buffer.ready(step))
            groups = self._taken[step] = self._buffer.take(step)
            self._changed.notify_all()
        stored = self._experience
        return groups, BufferState(self._buffer.size, stored.rollouts, stored.nbytes)

    async def draw(self, step: int, version: int, rows: int) -> Draw:
        self._experience.evict(version)
        return self._experience.draw(step, version, rows)

    async def keep(
        self, step: int, advantages: Sequence[np.ndarray], priorities: Sequence[np.ndarray]
    ) -> None:
        for parts in zip(self._taken[step], advantages, priorities, strict=True):
            self._experience.keep(*parts)

    async def release(self, step: int) -> None:
        self.log.append(("release", step))

    async def allocate(self, prompts: Sequence[Prompt], budget: int) -> Allocation:
        self.decided_after.append(len(self.observed))
        unknown = np.full(len(prompts), np.nan)
        return Allocation(uniform(len(prompts), budget), unknown, unknown, np.nan)

    async def observe(self, observation: Observation) -> None:
        self.observed.append(observation)

    async def update(self, batch: TrainBatch) -> LearnerReport:
        await asyncio.sleep(0.002)
        self.batches.append(batch)
        self.log.append(("update", batch.step, batch.version, batch.handles))
        return LearnerReport(0.0, 1.0, 0.1, 1.0, 0.0, 0.0, 0.0, 0.0, 4, 1, 1, 0, (), 0.01)

    async def publish(self, version: int) -> WeightSnapshot:
        self.log.append(("publish", version))
        nothing = np.zeros(2, np.float32)
        return WeightSnapshot(version, (None,), 10, nothing, nothing, 0.0)

    async def send(self) -> None:
        pass

    async def load(self, snapshot: WeightSnapshot) -> LoadReport:
        if self.lost_weights > 0:
            self.lost_weights -= 1
            raise WeightsLost("the learner is gone")
        self.version = snapshot.version
        return LoadReport(0.0, 0.0)

    async def save(self, folder: Path) -> None:
        (folder / "weights").write_text(str(self.version))

    def saved(self, checkpoint: Path) -> None:
        assert (checkpoint / "weights").exists()
        self.log.append(("saved", checkpoint.name))

    def events(self, kind: str) -> list[Any]:
        return [entry[1] for entry in self.log if entry[0] == kind]


def _reward(outcome: Outcome) -> float | None:
    return {Outcome.CORRECT: 1.0, Outcome.WRONG: 0.0}.get(outcome)


def settings(**overrides: Any) -> ExperimentConfig:
    given = {
        "steps": 6,
        "rollout.prompts_per_step": 3,
        "rollout.rollouts_per_prompt": 2,
        "evaluation.suites": "[]",
        "telemetry": "{rollouts: none, tensorboard: false}",
        "checkpoint.every_steps": "null",
        **overrides,
    }
    return load_config(ROOT / "configs/dev/arithmetic.yaml", [f"{k}={v}" for k, v in given.items()])


class Trial:
    """One run of the controller in a folder, from its newest checkpoint."""

    def __init__(self, folder: Path, config: ExperimentConfig, seed: int = 0) -> None:
        self.run = RunFolder(folder)
        if not self.run.config.exists():
            self.run = RunFolder.create(folder, config, min_free_bytes=0)
        data = Data(PROMPTS, ())
        found = self.run.latest_checkpoint().found
        state = TrainingState(0, 0, data.sampler(config).state())
        if found:
            state = TrainingState.read(found.path)
            self.run.rewind(found.step)
        self.world = World(config, seed)
        self.recorder = Recorder(self.run, config, LiveView(config.steps, out=io.StringIO()))
        self.controller = Controller(config, self.world.ports, data, state, self.recorder)

    def go(self, stop_after: float | None = None) -> None:
        async def scenario() -> None:
            if stop_after is not None:
                asyncio.get_running_loop().call_later(stop_after, self.controller.stop)
            await asyncio.wait_for(self.controller.run(), 20)

        try:
            asyncio.run(scenario())
        finally:
            self.recorder.close()
            self.run.close()

    def metrics(self) -> list[dict[str, float]]:
        return [json.loads(line) for line in self.run.metrics.read_text().splitlines()]


@pytest.mark.parametrize("max_lag", [0, 1, 3])
def test_every_step_is_trained_once_in_order_within_the_lag_bound(
    tmp_path: Path, max_lag: int
) -> None:
    trial = Trial(tmp_path / "run", settings(steps=12, **{"rollout.max_lag": max_lag}))
    trial.go()
    assert trial.world.events("update") == list(range(1, 13))
    lag = max(record["lag/max"] for record in trial.metrics()[1:])
    assert lag <= max_lag
    assert (lag > 0) == (max_lag > 0)
    assert [record["step"] for record in trial.metrics()] == list(range(13))
    assert trial.metrics()[-1]["version"] == 12


def test_weights_are_published_before_the_first_rollout_and_after_every_update(
    tmp_path: Path,
) -> None:
    trial = Trial(tmp_path / "run", settings())
    trial.go()
    kinds = [entry[0] for entry in trial.world.log if entry[0] in ("publish", "update")]
    assert kinds == ["publish", *["update", "publish"] * 6]
    assert trial.world.events("publish") == list(range(7))


def test_groups_are_trained_in_ticket_order_whatever_order_they_finished_in(
    tmp_path: Path,
) -> None:
    trial = Trial(tmp_path / "run", settings(), seed=5)
    trial.go()
    handles = [entry[3] for entry in trial.world.log if entry[0] == "update"]
    assert handles == [(3 * s, 3 * s + 1, 3 * s + 2) for s in range(6)]


def test_a_step_without_signal_publishes_nothing_and_keeps_the_version(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "run", settings())
    trial.world.outcomes = [Outcome.CORRECT]
    trial.go()
    assert trial.world.events("publish") == [0]
    assert trial.world.events("update") == []
    last = trial.metrics()[-1]
    assert (last["step"], last["version"], last["rollouts/dropped"]) == (6, 0, 6)
    assert "loss/policy" not in last


def test_dynamic_sampling_goes_on_until_enough_groups_carry_signal(tmp_path: Path) -> None:
    """Of every 5 groups 2 collapse; 9 groups at most fill the buffer to its last place."""
    overrides = {"rollout.sampling_rounds": 3, "replay.capacity_groups": 9}
    trial = Trial(tmp_path / "run", settings(**overrides))
    mixed, collapsed = [Outcome.CORRECT, Outcome.WRONG], [Outcome.WRONG]
    trial.world.outcomes_of = lambda group: collapsed if group % 5 < 2 else mixed  # type: ignore[method-assign]
    trial.go()
    for record, batch in zip(trial.metrics()[1:], trial.world.batches, strict=True):
        groups = record["rollouts/generated"] / 2
        assert len(batch.handles) == round((1 - record["acr/group"]) * groups) <= 3
        assert groups == len(trial.world.prompts[int(record["step"])])
        assert len(batch.handles) == 3 or groups == 9
    assert max(record["rollouts/generated"] for record in trial.metrics()[1:]) > 6


def test_dynamic_sampling_gives_up_after_its_rounds(tmp_path: Path) -> None:
    overrides = {"rollout.sampling_rounds": 3, "replay.capacity_groups": 9}
    trial = Trial(tmp_path / "run", settings(steps=2, **overrides))
    trial.world.outcomes = [Outcome.WRONG]
    trial.go()
    assert [record["rollouts/generated"] for record in trial.metrics()[1:]] == [18, 18]
    assert trial.world.batches == []


def test_replay_adds_rollouts_of_earlier_steps_and_never_of_this_one(tmp_path: Path) -> None:
    reuse = "{kind: prioritised, start_step: 3, max_age: 2, ratio: 1.0}"
    overrides = {"replay.reuse": reuse, "algorithm.mismatch.mode": "bypass"}
    trial = Trial(tmp_path / "run", settings(**overrides))
    trial.go()
    for batch in trial.world.batches:
        fresh = {3 * (batch.step - 1) + slot for slot in range(3)}
        drawn = {handle.handle for handle in batch.handles if isinstance(handle, GradedGroup)}
        assert not drawn & fresh
        assert bool(drawn) == (batch.step >= 3)
        assert all(batch.step - 2 <= 1 + group // 3 for group in drawn)
        assert batch.rows == (12 if batch.step >= 3 else 6)


def test_the_allocator_observes_every_step_before_it_decides_the_next(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "run", settings())
    trial.go()
    assert len(trial.world.observed) == 6
    assert trial.world.decided_after == [0, 1, 2, 3, 4, 5]
    assert all((seen.counts == 2).all() for seen in trial.world.observed)


@pytest.mark.parametrize("max_lag", [0, 2])
def test_another_prompt_takes_the_place_of_a_poisonous_one_for_good(
    tmp_path: Path, max_lag: int
) -> None:
    """The group keeps its number and size; a resumed run still passes over the prompt."""
    config = settings(steps=8, **{"rollout.max_lag": max_lag, "checkpoint.every_steps": 4})
    trial = Trial(tmp_path / "run", config)
    trial.world.poison = {2, 7}
    trial.go()
    assert trial.world.events("update") == list(range(1, 9))
    assert all(record["rollouts/generated"] == 6 for record in trial.metrics()[1:])
    met = [index for prompts in trial.world.prompts.values() for index in prompts]
    assert sorted(index for index in met if index in trial.world.poison) == [2, 7]
    events = [json.loads(line) for line in trial.run.events.read_text().splitlines()]
    told = [event["prompt"] for event in events if event["kind"] == "quarantined"]
    assert sorted(told) == [2, 7]
    state = TrainingState.read(trial.run.latest_checkpoint().found.path)
    assert state.quarantined == [2, 7]
    resumed = Trial(tmp_path / "run", config.model_copy(update={"steps": 12}))
    resumed.go()
    assert not {2, 7} & {i for prompts in resumed.world.prompts.values() for i in prompts}


def test_a_run_whose_every_prompt_is_poisonous_ends_in_one_message(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "run", settings())
    trial.world.poison = set(range(len(PROMPTS)))
    with pytest.raises(ClusterError, match="every prompt is in quarantine"):
        trial.go()


def test_weights_that_are_lost_on_their_way_are_published_again(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "run", settings(steps=2))
    trial.world.lost_weights = 2
    trial.go()
    assert trial.world.events("publish") == [0, 0, 0, 1, 2]
    other = Trial(tmp_path / "other", settings(steps=2))
    other.world.lost_weights = 3
    with pytest.raises(SyncError, match="published 3 times and lost every time"):
        other.go()


def test_an_error_in_one_stream_ends_the_run_with_that_error(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "run", settings())
    trial.world.breaks_at = 3
    with pytest.raises(RuntimeError, match="the engine broke"):
        trial.go()
    assert trial.world.events("update") == [1, 2]


def test_too_many_missing_verdicts_end_the_run(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "run", settings())
    trial.world.outcomes = [Outcome.CORRECT, Outcome.ERROR]
    with pytest.raises(VerifierError, match=r"3 of 6 rollouts .* error: test \(3x\)"):
        trial.go()
    assert trial.world.events("update") == []


@pytest.mark.parametrize("max_lag", [0, 2])
def test_an_interrupted_and_resumed_run_uses_the_prompts_and_steps_of_an_uninterrupted_one(
    tmp_path: Path, max_lag: int
) -> None:
    config = settings(steps=40, **{"rollout.max_lag": max_lag})
    whole = Trial(tmp_path / "whole", config)
    whole.go()
    first = Trial(tmp_path / "run", config)
    with pytest.raises(Interrupted):
        first.go(stop_after=0.1)
    reached = first.controller.step
    assert 0 < reached < 40
    assert first.run.latest_checkpoint().found.step == reached
    second = Trial(tmp_path / "run", config)
    second.go()
    assert second.world.events("update") == list(range(reached + 1, 41))
    assert second.world.events("publish")[0] == reached
    trained = {s: p for s, p in first.world.prompts.items() if s <= reached}
    assert trained | second.world.prompts == whole.world.prompts
    assert [record["step"] for record in second.metrics()] == list(range(41))


def test_checkpoints_come_when_due_and_at_the_end_and_old_ones_go(tmp_path: Path) -> None:
    config = settings(steps=7, **{"checkpoint.every_steps": 2, "checkpoint.keep_last": 2})
    trial = Trial(tmp_path / "run", config)
    trial.go()
    kept = sorted(path.name for path in trial.run.checkpoints.iterdir())
    assert kept == ["step-000006", "step-000007"]


def test_the_times_of_a_step_are_not_more_than_the_step(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "run", settings())
    trial.go()
    for record in trial.metrics()[1:]:
        assert 0 <= record["time/idle_learner"] <= record["time/step"]
        assert 0 <= record["time/idle_rollout"] <= record["time/step"]
        assert record["time/overhead"] >= 0
