import gc
import io
import itertools
import json
import weakref
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from scipy.stats import chisquare

from rlvr_platform.config.replay import PrioritisedReuse
from rlvr_platform.errors import InputError
from rlvr_platform.replay.experience import (
    Draw,
    Evicted,
    ExperienceReplay,
    priority_weights,
)


class Handle:
    """Stands for a group in the object store: can be watched for its release."""


def config(**changes: Any) -> PrioritisedReuse:
    return PrioritisedReuse(**{"start_step": 1, **changes})


def store(
    replay: ExperienceReplay,
    group_id: int,
    advantages: list[float],
    birth: int | list[int] = 0,
    handle: Any = None,
    nbytes: int = 100,
    priorities: list[float] | None = None,
) -> None:
    count = len(advantages)
    replay.insert(
        handle=f"group {group_id}" if handle is None else handle,
        nbytes=nbytes,
        group_id=group_id,
        prompt_index=group_id + 1000,
        siblings=np.arange(count, dtype=np.int32),
        advantages=np.array(advantages, np.float32),
        priorities=np.abs(advantages) if priorities is None else np.array(priorities, float),
        births=np.full(count, birth, np.int32) if isinstance(birth, int) else np.array(birth),
        lengths=np.arange(count, dtype=np.int32) + 10 * group_id,
        trained_tokens=np.arange(count, dtype=np.int32) + group_id,
    )


def drawn(draw: Draw) -> list[tuple[str, int]]:
    """The rows of a draw as (handle, sibling), in order."""
    pairs = zip(draw.group, draw.sibling, strict=True)
    return [(draw.handles[group], int(sibling)) for group, sibling in pairs]


def same(left: Draw, right: Draw) -> bool:
    return all(np.array_equal(getattr(left, f.name), getattr(right, f.name)) for f in fields(Draw))


def filled(seed: int = 0, groups: int = 20, **changes: Any) -> ExperienceReplay:
    """20 groups of 4 random rollouts with births 0 to 4."""
    replay, rng = ExperienceReplay(config(**changes), seed), np.random.default_rng(7)
    for group_id in range(groups):
        store(replay, group_id, rng.normal(size=4).tolist(), birth=group_id % 5)
    return replay


ADVANTAGES = [-2.0, 0.5, 0.0, 1.0, 0.1]


def formula(alpha: float) -> np.ndarray:
    weights = (np.abs(np.float64(ADVANTAGES)) + 1e-6) ** alpha
    return weights / weights.sum()


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_single_draws_follow_the_formula(alpha: float) -> None:
    replay = ExperienceReplay(config(alpha=alpha), seed=3)
    store(replay, 0, ADVANTAGES)
    picks = Counter(int(replay.draw(step, 0, 1).sibling[0]) for step in range(1, 6001))
    expected = formula(alpha) * 6000
    keep = expected > 5
    observed = np.array([picks[sibling] for sibling in range(5)])
    assert (
        chisquare(
            [*observed[keep], observed[~keep].sum() + 1],
            [*expected[keep], expected[~keep].sum() + 1],
        ).pvalue
        > 1e-3
    )


def test_draws_of_two_include_rollouts_as_enumeration_says() -> None:
    """Each further pick is proportional to its weight among the rollouts not yet picked."""
    replay = ExperienceReplay(config(alpha=0.5), seed=4)
    store(replay, 0, ADVANTAGES[:2])
    store(replay, 1, ADVANTAGES[3:])
    weights = np.sqrt(np.abs(np.delete(ADVANTAGES, 2)) + 1e-6)
    probability = weights / weights.sum()
    law = {
        (first, second): probability[first] * probability[second] / (1 - probability[first])
        for first, second in itertools.permutations(range(4), 2)
    }
    position = {("group 0", 0): 0, ("group 0", 1): 1, ("group 1", 0): 2, ("group 1", 1): 3}
    seen = Counter(
        tuple(position[row] for row in drawn(replay.draw(step, 0, 2))) for step in range(1, 6001)
    )
    observed = [seen[order] for order in law]
    assert chisquare(observed, np.array(list(law.values())) * 6000).pvalue > 1e-3


def test_the_reported_probability_is_that_of_the_formula() -> None:
    replay = ExperienceReplay(config(alpha=0.5), seed=0)
    store(replay, 0, ADVANTAGES)
    draw = replay.draw(1, 0, 5)
    assert draw.rows == 5
    np.testing.assert_allclose(draw.probability, formula(0.5)[draw.sibling], rtol=1e-12)


def test_a_draw_carries_what_was_inserted() -> None:
    replay = filled()
    draw = replay.draw(1, version=4, count=1000)
    assert draw.rows == 80 and len(set(drawn(draw))) == 80
    assert draw.handles == tuple(f"group {i}" for i in range(20))
    assert draw.group_ids.tolist() == list(range(20))
    assert draw.ages.tolist() == (4 - draw.group % 5).tolist()
    assert draw.length.tolist() == (10 * draw.group + draw.sibling).tolist()
    assert draw.trained_tokens.tolist() == (draw.group + draw.sibling).tolist()
    types = {f.name: getattr(draw, f.name).dtype for f in fields(Draw) if f.name != "handles"}
    assert types == {
        "group_ids": np.int64,
        "group": np.int32,
        "sibling": np.int32,
        "advantage": np.float32,
        "length": np.int32,
        "trained_tokens": np.int32,
        "ages": np.int64,
        "probability": np.float64,
    }


def test_growth_keeps_every_rollout() -> None:
    draw = filled(groups=700).draw(1, version=4, count=9000)
    advantages = np.random.default_rng(7).normal(size=(700, 4)).astype(np.float32)
    assert draw.rows == 2800
    assert np.array_equal(draw.advantage, advantages[draw.group, draw.sibling])


def test_draws_are_empty_before_the_start_step_and_from_an_empty_store() -> None:
    empty = ExperienceReplay(config(), seed=0).draw(1, 0, 5)
    assert (empty.rows, empty.handles, len(empty.probability)) == (0, (), 0)
    replay = filled(start_step=20)
    assert replay.draw(19, 4, 5).rows == 0
    assert replay.draw(20, 4, 5).rows == 5


def test_a_draw_does_not_consume() -> None:
    replay = filled()
    first = replay.draw(1, 4, 30)
    assert same(first, replay.draw(1, 4, 30))
    assert replay.rollouts == 80


def test_draws_depend_on_step_and_seed() -> None:
    replay = filled()
    assert drawn(replay.draw(1, 4, 30)) != drawn(replay.draw(2, 4, 30))
    assert drawn(replay.draw(1, 4, 30)) != drawn(filled(seed=1).draw(1, 4, 30))


def test_rollouts_inserted_after_the_draw_of_their_step_are_not_in_it() -> None:
    replay = ExperienceReplay(config(), seed=0)
    for step in range(1, 6):
        replay.evict(step)
        draw = replay.draw(step, version=step, count=100)
        assert set(draw.handles) == {f"group {earlier}" for earlier in range(1, step)}
        assert (draw.ages >= 1).all()
        store(replay, step, [1.0, -1.0], birth=step)


@pytest.mark.parametrize("max_age", [1, 3, 10])
def test_an_age_of_max_age_stays_and_the_next_leaves(max_age: int) -> None:
    replay = ExperienceReplay(config(max_age=max_age), seed=0)
    store(replay, 0, [1.0, -1.0, 0.5], birth=[5, 6, 5])
    assert replay.evict(5 + max_age) == Evicted()
    assert replay.draw(1, 5 + max_age, 9).ages.max() == max_age
    assert replay.evict(6 + max_age) == Evicted(age=2)
    assert drawn(replay.draw(1, 6 + max_age, 9)) == [("group 0", 1)]
    assert replay.evict(7 + max_age) == Evicted(age=1)
    assert replay.rollouts == replay.groups == replay.nbytes == 0


def test_a_draw_that_would_break_the_age_limit_is_refused() -> None:
    replay = ExperienceReplay(config(max_age=2), seed=0)
    store(replay, 0, [1.0, -1.0], birth=1)
    with pytest.raises(ValueError, match=r"evict\(version\) comes before draw"):
        replay.draw(1, 4, 1)
    with pytest.raises(ValueError, match="from -1 to -1 at version 0"):
        replay.draw(1, 0, 1)


def test_advantages_are_frozen_at_birth() -> None:
    replay = ExperienceReplay(config(), seed=0)
    columns = {name: np.ones(2, np.int32) for name in ("births", "lengths", "trained_tokens")}
    advantages, priorities = np.array([0.25, -4.0], np.float32), np.array([0.25, 4.0])
    replay.insert("group", 1, 0, 0, np.arange(2), advantages, priorities, **columns)
    advantages[:], priorities[:] = 9.0, 0.0
    replay.draw(1, 1, 2).advantage[:] = 9.0
    for version in (1, 5, 11):
        draw = replay.draw(1, version, 2)
        assert sorted(draw.advantage.tolist()) == [-4.0, 0.25]
        assert draw.probability[draw.sibling == 1] > draw.probability[draw.sibling == 0]


def test_capacity_lets_the_oldest_births_go_first() -> None:
    replay = ExperienceReplay(config(capacity_rollouts=3), seed=0)
    store(replay, 0, [1.0, -1.0], birth=[4, 2])
    store(replay, 1, [1.0, -1.0], birth=[2, 3])
    store(replay, 2, [1.0], birth=2)
    assert replay.evict(5) == Evicted(capacity=2)
    assert sorted(drawn(replay.draw(1, 5, 9))) == [("group 0", 0), ("group 1", 1), ("group 2", 0)]


def test_the_memory_bound_lets_as_few_of_the_oldest_go_as_it_takes() -> None:
    gib = 2**30
    replay = ExperienceReplay(config(max_gib=4), seed=0)
    store(replay, 0, [1.0, -1.0], birth=[0, 3], nbytes=2 * gib)
    store(replay, 1, [1.0, -1.0], birth=[1, 1], nbytes=2 * gib)
    assert replay.evict(5) == Evicted()
    store(replay, 2, [1.0, -1.0], birth=[2, 4], nbytes=1)
    # Group 1 is free first, and the older rollout of group 0 precedes it.
    assert replay.evict(5) == Evicted(memory=3)
    assert replay.nbytes == 2 * gib + 1
    assert sorted(drawn(replay.draw(1, 5, 9))) == [("group 0", 1), ("group 2", 0), ("group 2", 1)]


def test_a_handle_is_released_exactly_with_its_last_rollout() -> None:
    replay = ExperienceReplay(config(max_age=2), seed=0)
    handle = Handle()
    watch = weakref.ref(handle)
    store(replay, 0, [1.0, -1.0], birth=[0, 1], handle=handle)
    del handle
    replay.evict(3)
    assert replay.draw(1, 3, 9).handles == (watch(),)
    gc.collect()
    assert replay.rollouts == 1 and watch() is not None
    replay.evict(4)
    gc.collect()
    assert watch() is None


def test_gaps_never_outnumber_what_is_stored() -> None:
    replay = ExperienceReplay(config(max_age=2), seed=0)
    for version in range(400):
        replay.evict(version)
        rows = len(replay.state()[0]["rows.weight"])
        assert rows <= 2 * replay.rollouts
        for group_id in range(10):
            store(replay, 10 * version + group_id, [1.0, -1.0], birth=version)
    assert replay.rollouts == 60


def test_draws_do_not_depend_on_what_has_left() -> None:
    """Rollouts of a group that left before are no part of the contents."""
    rng = np.random.default_rng(1)
    groups = [rng.normal(size=4).tolist() for _ in range(40)]
    aged, young = (ExperienceReplay(config(max_age=3), seed=0) for _ in range(2))
    for group_id, advantages in enumerate(groups):
        birth = 0 if group_id % 3 == 0 else 5
        store(aged, group_id, advantages, birth)
        if birth:
            store(young, group_id, advantages, birth)
    assert aged.evict(5).age == 4 * 14
    assert len(aged.state()[0]["rows.weight"]) > len(young.state()[0]["rows.weight"])
    for step in range(1, 20):
        assert drawn(aged.draw(step, 5, 30)) == drawn(young.draw(step, 5, 30))


def test_a_saved_state_goes_on_bit_for_bit() -> None:
    replay = filled(max_age=6, capacity_rollouts=70)
    replay.evict(7)
    arrays, handles = replay.state()
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    restored = ExperienceReplay(config(max_age=6, capacity_rollouts=70), seed=0)
    restored.restore(np.load(file, allow_pickle=False), handles)
    assert (restored.rollouts, restored.groups) == (replay.rollouts, replay.groups)
    assert restored.nbytes == replay.nbytes
    for step in range(8, 16):
        assert replay.evict(step) == restored.evict(step)
        assert same(replay.draw(step, step, 30), restored.draw(step, step, 30))
        for one in (replay, restored):
            store(one, 100 + step, [step / 8, -0.1, 0.3], birth=step - 1)
    assert replay.describe(15) == restored.describe(15)


def test_a_state_is_a_snapshot() -> None:
    replay = filled()
    arrays, _ = replay.state()
    before = {name: array.copy() for name, array in arrays.items()}
    replay.evict(14)
    store(replay, 50, [1.0, -1.0], birth=14)
    replay.draw(1, 14, 5)
    assert all(np.array_equal(arrays[name], before[name]) for name in before)


DIFFERENT = {
    "ratio": 0.25,
    "alpha": 1.0,
    "max_age": 4,
    "start_step": 2,
    "capacity_rollouts": 10,
    "max_gib": 1.0,
    "priority": "uniform",
    "composition": "pool",
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_state_of_another_configuration_is_refused_by_name(name: str) -> None:
    arrays, handles = filled().state()
    other = ExperienceReplay(config(**{name: DIFFERENT[name]}), seed=0)
    with pytest.raises(InputError, match=rf"another configuration: {name}=\S+ \(now \S+\)\n"):
        other.restore(arrays, handles)
    assert other.rollouts == 0


def test_a_state_of_another_eviction_or_seed_is_refused_by_name() -> None:
    arrays, handles = filled().state()
    other = ExperienceReplay(config(eviction="capacity", max_age=None), seed=1)
    with pytest.raises(InputError, match=r"seed=0 \(now 1\), max_age=10 .*, eviction=age"):
        other.restore(arrays, handles)


@pytest.mark.parametrize("damage", ["rows.weight", "groups.nbytes", "settings"])
def test_a_state_that_lacks_an_array_is_refused(damage: str) -> None:
    arrays, handles = filled().state()
    del arrays[damage]
    with pytest.raises(InputError, match=f"damaged: it lacks {damage}"):
        filled(groups=0).restore(arrays, handles)


def test_a_state_whose_parts_do_not_fit_is_refused() -> None:
    arrays, handles = filled().state()
    with pytest.raises(InputError, match="different lengths, beside 19 groups"):
        filled(groups=0).restore(arrays, handles[1:])
    short = {**arrays, "rows.birth": arrays["rows.birth"][1:]}
    with pytest.raises(InputError, match="different lengths"):
        filled(groups=0).restore(short, handles)
    foreign = {**arrays, "groups.group_id": arrays["groups.group_id"] + 1}
    with pytest.raises(InputError, match="belong to other groups"):
        filled(groups=0).restore(foreign, handles)


BAD = {
    "NaN advantage": ({"advantages": [np.nan, 1.0]}, "NaN or infinite"),
    "infinite advantage": ({"advantages": [np.inf, 1.0]}, "NaN or infinite"),
    "NaN priority": ({"priorities": [np.nan, 1.0]}, "NaN or infinite"),
    "negative priority": ({"priorities": [-1.0, 1.0]}, "negative"),
    "nothing to learn from": ({"advantages": [0.0, 0.0]}, "all advantages are zero"),
    "no rollouts": ({"advantages": []}, "at least one"),
    "columns of two lengths": ({"birth": [1, 2, 3]}, "one entry per rollout"),
}


@pytest.mark.parametrize("case", BAD)
def test_rollouts_that_cannot_be_trained_on_are_refused_and_leave_nothing(case: str) -> None:
    changes, message = BAD[case]
    replay = ExperienceReplay(config(), seed=0)
    with pytest.raises(ValueError, match=message):
        store(replay, **{"group_id": 0, "advantages": [1.0, -1.0], **changes})
    assert replay.rollouts == replay.groups == replay.draw(1, 0, 5).rows == 0


def test_a_group_that_is_here_already_is_refused() -> None:
    replay = ExperienceReplay(config(), seed=0)
    store(replay, 0, [1.0, -1.0])
    with pytest.raises(ValueError, match="group 0 is already stored"):
        store(replay, 0, [1.0, -1.0])


def test_priorities_of_the_ablation() -> None:
    advantages = np.array([-1.5, 0.5, 1.0], np.float32)
    assert priority_weights("advantage", advantages, 0.4).tolist() == [1.5, 0.5, 1.0]
    assert priority_weights("group_std", advantages, 0.4).tolist() == [0.4, 0.4, 0.4]
    assert priority_weights("uniform", advantages, 0.4).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="unknown priority 'age'"):
        priority_weights("age", advantages, 0.4)


@pytest.mark.parametrize("kind", ["advantage", "group_std", "uniform"])
def test_every_priority_draws_by_itself(kind: str) -> None:
    replay = ExperienceReplay(config(priority=kind, alpha=1.0), seed=0)
    groups = {0: ([-3.0, 1.0], 0.1), 1: ([-1.0, 1.0], 0.5)}
    for group_id, (advantages, std) in groups.items():
        weights = priority_weights(kind, np.array(advantages), std)
        store(replay, group_id, advantages, priorities=weights.tolist())
    draw = replay.draw(1, 0, 4)
    chance = dict(zip(drawn(draw), draw.probability, strict=True))
    by_row = [chance[f"group {group}", sibling] for group in (0, 1) for sibling in (0, 1)]
    expected = {
        "advantage": [3 / 6, 1 / 6, 1 / 6, 1 / 6],
        "group_std": [1 / 12, 1 / 12, 5 / 12, 5 / 12],
        "uniform": [1 / 4] * 4,
    }
    np.testing.assert_allclose(by_row, expected[kind], atol=1e-5)


def test_eviction_by_capacity_has_no_age_limit() -> None:
    replay = filled(eviction="capacity", max_age=None, capacity_rollouts=60)
    assert replay.evict(1000) == Evicted(capacity=20)
    assert replay.draw(1, 1000, 100).ages.max() == 999


def test_describe_explains_the_contents_and_the_next_draw() -> None:
    replay = ExperienceReplay(config(start_step=7, max_age=5), seed=0)
    store(replay, 1, [1.0, -1.0], birth=0)
    store(replay, 2, [-4.0, 0.25], birth=[3, 2])
    replay.evict(6)
    told = json.loads(json.dumps(replay.describe(6, top=1)))
    assert told == {
        "rollouts": 2,
        "groups": 1,
        "bytes": 100,
        "ages": {"3": 1, "4": 1},
        "priority_quantiles": {
            "0.0": 0.25,
            "0.1": pytest.approx(0.625),
            "0.5": pytest.approx(2.125),
            "0.9": pytest.approx(3.625),
            "1.0": 4.0,
        },
        "last_evicted": {"age": 2, "capacity": 0, "memory": 0},
        "draws_from_step": 7,
        "drawn_by": "(advantage + 1e-06) ** 0.5, one after the other, none twice in a draw",
        "most_likely": [
            {
                "group_id": 2,
                "prompt_index": 1002,
                "sibling": 0,
                "age": 3,
                "advantage": -4.0,
                "priority": 4.0,
                "probability": pytest.approx(2 / 2.5, rel=1e-5),
            }
        ],
    }


def test_describe_of_an_empty_store_is_empty() -> None:
    told = json.loads(json.dumps(ExperienceReplay(config(), seed=0).describe(0)))
    assert (told["rollouts"], told["ages"], told["most_likely"]) == (0, {}, [])


@dataclass(frozen=True)
class Row:
    group_id: int
    sibling: int
    advantage: float
    birth: int
    nbytes: int


class ReplayAgainstAList(RuleBasedStateMachine):
    """The same calls on a list of rows, with the rules written out one row at a time."""

    MAX_AGE, CAPACITY, UNIT = 3, 12, 2**20

    def __init__(self) -> None:
        super().__init__()
        self.model: list[Row] = []
        self.watched: dict[int, weakref.ref[Handle]] = {}
        self.version, self.next_id = 0, 0

    @initialize(max_units=st.integers(3, 8), seed=st.integers(0, 9))
    def start(self, max_units: int, seed: int) -> None:
        self.max_bytes = max_units * self.UNIT
        self.seed = seed
        self.settings = config(
            max_age=self.MAX_AGE,
            capacity_rollouts=self.CAPACITY,
            max_gib=self.max_bytes / 2**30,
        )
        self.replay = ExperienceReplay(self.settings, seed)

    @rule(
        advantages=st.lists(
            st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=5
        ).filter(any),
        lags=st.lists(st.integers(0, 2), min_size=5, max_size=5),
        units=st.integers(0, 3),
    )
    def insert(self, advantages: list[float], lags: list[int], units: int) -> None:
        group_id, nbytes = self.next_id, units * self.UNIT
        self.next_id += 1
        births = [self.version - lag for lag in lags[: len(advantages)]]
        handle = Handle()
        self.watched[group_id] = weakref.ref(handle)
        store(self.replay, group_id, advantages, births, handle, nbytes)
        self.model += [
            Row(group_id, sibling, advantage, birth, nbytes)
            for sibling, (advantage, birth) in enumerate(zip(advantages, births, strict=True))
        ]

    @rule(steps=st.integers(0, 2))
    def evict(self, steps: int) -> None:
        self.version += steps
        young = [row for row in self.model if self.version - row.birth <= self.MAX_AGE]
        # sorted is stable: of one birth, the first inserted comes first.
        queue = sorted(young, key=lambda row: row.birth)
        fitting = queue[max(0, len(queue) - self.CAPACITY) :]
        light = list(fitting)
        while self.bytes_of(light) > self.max_bytes:
            light.pop(0)
        expected = Evicted(
            len(self.model) - len(young), len(young) - len(fitting), len(fitting) - len(light)
        )
        assert self.replay.evict(self.version) == expected
        self.model = [row for row in self.model if row in light]

    @precondition(lambda self: self.fresh_enough())
    @rule(step=st.integers(1, 50), count=st.integers(0, 30))
    def draw(self, step: int, count: int) -> None:
        draw = self.replay.draw(step, self.version, count)
        rows = self.rows_of(draw)
        assert len(rows) == len(set(rows)) == min(count, len(self.model))
        weights = {row: (abs(row.advantage) + 1e-6) ** 0.5 for row in self.model}
        total = sum(weights.values())
        expected = [weights[row] / total for row in rows]
        np.testing.assert_allclose(draw.probability, expected, rtol=1e-12)
        assert draw.ages.tolist() == [self.version - row.birth for row in rows]

    @rule()
    def save_and_restore(self) -> None:
        arrays, handles = self.replay.state()
        before = self.replay.describe(self.version)
        self.replay = ExperienceReplay(self.settings, self.seed)
        self.replay.restore(arrays, handles)
        assert self.replay.describe(self.version) == {
            **before,
            "last_evicted": {"age": 0, "capacity": 0, "memory": 0},
        }

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        groups = {row.group_id for row in self.model}
        assert self.replay.rollouts == len(self.model)
        assert self.replay.groups == len(groups)
        assert self.replay.nbytes == self.bytes_of(self.model)
        held = {group_id for group_id, watch in self.watched.items() if watch() is not None}
        assert held == groups

    def fresh_enough(self) -> bool:
        return all(self.version - row.birth <= self.MAX_AGE for row in self.model)

    def rows_of(self, draw: Draw) -> list[Row]:
        ids = {watch(): group_id for group_id, watch in self.watched.items() if watch()}
        by_key = {(row.group_id, row.sibling): row for row in self.model}
        return [by_key[ids[handle], sibling] for handle, sibling in drawn(draw)]  # type: ignore[index]

    @staticmethod
    def bytes_of(rows: list[Row]) -> int:
        return sum({row.group_id: row.nbytes for row in rows}.values())


TestReplayAgainstAList = ReplayAgainstAList.TestCase
TestReplayAgainstAList.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


@given(st.integers(1, 30), st.integers(1, 40))
def test_a_draw_takes_what_was_asked_or_all_there_is(groups: int, count: int) -> None:
    draw = filled(groups=groups).draw(1, 4, count)
    assert draw.rows == min(count, 4 * groups) == len(set(drawn(draw)))
