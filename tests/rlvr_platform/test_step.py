import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.algorithms.advantages import advantages
from rlvr_platform.algorithms.avspo import TriggerState, initial, observe, virtual_count
from rlvr_platform.batching.denominators import normalise
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import NumericalError
from rlvr_platform.outcomes import observe as observe_outcomes
from rlvr_platform.replay.experience import ExperienceReplay
from rlvr_platform.step import anchored, compose, pool_rows, pooled, replay_rows
from rlvr_platform.types import (
    Fate,
    Finish,
    GradedGroup,
    GroupSummary,
    Outcome,
    Verdict,
)


def settings(algorithm=(), **sections):
    """A legal configuration without any method, but for the sections given."""
    return ExperimentConfig.model_validate(
        {
            "steps": 100,
            "model": {"kind": "pretrained", "path": "m"},
            "data": {"train": {"kind": "arithmetic"}},
            "verifier": {"use": {"kind": "exact"}},
            "rollout": {"max_new_tokens": 20},
            "algorithm": {"advantage": "dr_grpo", **dict(algorithm)},
            **sections,
        },
        strict=False,
    )


DR_GRPO = settings()
AVSPO = {"kind": "avspo", "ema": 0.0, "max_share": 1.0}
VIP = {"kind": "vip"}
VERDICTS = {
    "c": Verdict(Outcome.CORRECT, 1.0, "7", "exact", 0.1),
    "w": Verdict(Outcome.WRONG, 0.0, "8", "exact", 0.1),
    "n": Verdict(Outcome.NO_ANSWER, 0.0, "", "exact", 0.1),
    "t": Verdict(Outcome.TIMEOUT, None, "", "deadline", 5.0),
    "e": Verdict(Outcome.ERROR, None, "", "crash", 0.1),
}


def pods(keep, rule="max_variance"):
    return {"kind": "pods", "keep": keep, "rule": rule}


def reuse(**changes):
    return {"reuse": {"kind": "prioritised", "start_step": 1, **changes}}


def started(config):
    """AVSPO's state at the start of a run."""
    return initial(config.avspo) if config.avspo.kind == "avspo" else None


def composed(groups, config, step=4):
    return compose(groups, step, 3, started(config), config)


def graded(letters, group_id=0, aborted=(), birth=3, cut=()):
    """A group with one letter per sibling; sibling i has 10 + i tokens, all but one sampled."""
    size = len(letters)
    finish = np.zeros(size, np.uint8)
    finish[list(cut)] = Finish.LENGTH
    finish[list(aborted)] = Finish.ABORT
    lengths = np.arange(10, 10 + size, dtype=np.int32)
    summary = GroupSummary(
        group_id=group_id,
        step=4,
        prompt_index=group_id,
        prompt_tokens=5,
        lengths=lengths,
        trained_tokens=lengths - 1,
        first_version=np.full(size, birth, np.int32),
        finish=finish,
        seconds=1.0,
        nbytes=100,
    )
    handle = f"handle-{group_id}"
    return GradedGroup(summary, tuple(VERDICTS[x] for x in letters), handle)


def test_rows_point_at_the_trained_siblings_of_groups_with_signal():
    groups = [graded("cc", 0), graded("cwtw", 1), graded("ww", 2), graded("wc", 3)]
    batch = compose(groups, 4, 3, None, DR_GRPO).batch
    assert batch.handles == ("handle-1", "handle-3")
    assert batch.group.tolist() == [0, 0, 0, 1, 1]
    assert batch.sibling.tolist() == [0, 1, 3, 0, 1]
    assert batch.advantage == pytest.approx([2 / 3, -1 / 3, -1 / 3, -0.5, 0.5])
    assert batch.length.tolist() == [15, 16, 18, 15, 16]
    assert batch.trained_tokens.tolist() == [9, 10, 12, 9, 10]
    assert batch.weight.tolist() == [1.0] * 5
    assert (batch.step, batch.version) == (4, 3)
    assert batch.advantage.dtype == batch.weight.dtype == np.float32
    assert batch.group.dtype == batch.sibling.dtype == batch.length.dtype == np.int32


def test_every_rollout_gets_exactly_one_fate():
    groups = [graded("ccc", 0), graded("cwt", 1), graded("ewc", 2, aborted=[2])]
    fates = compose(groups, 4, 3, None, DR_GRPO).fates
    assert [fate.tolist() for fate in fates] == [
        [Fate.DROPPED_NO_SIGNAL] * 3,
        [Fate.TRAINED, Fate.TRAINED, Fate.INVALID],
        [Fate.INVALID, Fate.DROPPED_NO_SIGNAL, Fate.INVALID],
    ]


def test_no_verdict_is_not_a_zero():
    with_errors = compose([graded("ccte")], 4, 3, None, DR_GRPO)
    assert with_errors.batch.rows == 0, "two correct and two errors are no signal"
    assert with_errors.metrics["reward/mean"] == 1.0
    mixed = compose([graded("cwte")], 4, 3, None, DR_GRPO)
    assert mixed.batch.advantage.tolist() == [0.5, -0.5]


def test_a_reward_of_an_aborted_rollout_is_ignored():
    composition = compose([graded("cwc", aborted=[2])], 4, 3, None, DR_GRPO)
    assert composition.batch.advantage.tolist() == [0.5, -0.5]
    assert composition.metrics["reward/mean"] == 0.5


def test_advantages_say_what_is_trained_dropped_and_invalid():
    scored = compose([graded("cwt"), graded("ct")], 4, 3, None, DR_GRPO).advantages
    assert scored[0] == pytest.approx([0.5, -0.5, np.nan], nan_ok=True)
    assert scored[1] == pytest.approx([0.0, np.nan], nan_ok=True)


@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "rloo"])
def test_valid_siblings_alone_decide_the_advantages(kind):
    config = settings(algorithm={"advantage": kind})
    with_invalid = compose([graded("cwewt")], 4, 3, None, config).batch
    without = compose([graded("cww")], 4, 3, None, config).batch
    assert with_invalid.advantage.tolist() == without.advantage.tolist()


def test_groups_without_signal_do_not_change_the_batch():
    useful = [graded("cwww", 1), graded("wc", 2)]
    alone = compose(useful, 4, 3, None, DR_GRPO).batch
    among = compose([graded("cc", 3), *useful, graded("tt", 4)], 4, 3, None, DR_GRPO).batch
    for field in dataclasses.fields(alone):
        assert np.array_equal(getattr(alone, field.name), getattr(among, field.name)), field.name


def test_statistics_are_of_raw_outcomes():
    groups = [
        graded("cccc", 0, birth=1),
        graded("cwnt", 1, birth=3),
        graded("ww", 2, birth=2),
        graded("te", 3, birth=3),
    ]
    metrics = compose(groups, 4, 3, None, DR_GRPO).metrics
    assert metrics == pytest.approx(
        {
            "reward/mean": 5 / 9,
            "acr/group": 2 / 3,
            "acr/rollout": 6 / 9,
            "rollouts/generated": 12,
            "rollouts/trained": 3,
            "rollouts/rescued": 0,
            "rollouts/down_sampled": 0,
            "rollouts/dropped": 6,
            "rollouts/pooled": 0,
            "rollouts/invalid": 3,
            "tokens/generated": 42 + 42 + 19 + 19,
            "tokens/trained": 30,
            "tokens/wasted": 42 + 12 + 19 + 19,
            "verdict/correct": 5,
            "verdict/wrong": 3,
            "verdict/no_answer": 1,
            "verdict/timeout": 2,
            "verdict/error": 1,
            "lag/mean": (4 * 2 + 4 * 0 + 2 * 1 + 2 * 0) / 12,
            "lag/max": 2,
        }
    )
    assert all(type(value) is float for value in metrics.values())


@pytest.mark.parametrize("groups", [[], [graded("tt")]])
def test_nothing_to_train_on_is_an_empty_batch_and_no_invented_means(groups):
    composition = compose(groups, 4, 3, None, DR_GRPO)
    assert composition.batch.rows == 0 and composition.batch.handles == ()
    assert "reward/mean" not in composition.metrics and "acr/group" not in composition.metrics
    assert composition.metrics["rollouts/trained"] == 0


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_that_is_not_finite_stops_the_step(reward):
    group = graded("cw", group_id=17)
    broken = dataclasses.replace(group.verdicts[0], reward=reward)
    with pytest.raises(NumericalError, match="group 17 has the reward"):
        compose(
            [dataclasses.replace(group, verdicts=(broken, group.verdicts[1]))], 4, 3, None, DR_GRPO
        )


def test_a_group_may_be_trained_partly_and_lags_count_every_rollout():
    groups = [graded("cwt", 0, birth=1)]
    composition = compose(groups, 4, 3, None, DR_GRPO)
    assert composition.metrics["lag/mean"] == 2 and composition.batch.rows == 2


def test_the_controller_composes_and_shards_without_torch():
    code = (
        "import sys, rlvr_platform.step, rlvr_platform.batching.sharding;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def rows_of(batch):
    """(group's handle, sibling) of every row."""
    pairs = zip(batch.group.tolist(), batch.sibling.tolist(), strict=True)
    return [(batch.handles[group], sibling) for group, sibling in pairs]


def summed_by_prompt(batch):
    return np.bincount(batch.group, weights=batch.weight)


@pytest.mark.parametrize(
    ("sizes", "kept"), [([3, 8, 4], [3, 4, 4]), ([2, 16, 5], [2, 4, 4]), ([4, 4, 4], [4, 4, 4])]
)
def test_m_of_a_prompt_is_at_most_its_number_of_rollouts(sizes, kept):
    groups = [graded("c" + "w" * (size - 1), i) for i, size in enumerate(sizes)]
    composition = composed(groups, settings(downsampling=pods(4)))
    assert np.bincount(composition.batch.group).tolist() == kept
    assert composition.metrics["rollouts/down_sampled"] == sum(sizes) - sum(kept)


def test_only_valid_siblings_are_down_sampled():
    group = graded("ctewwwc", aborted=[6])
    fates = composed([group], settings(downsampling=pods(2))).fates[0]
    assert fates[[1, 2, 6]].tolist() == [Fate.INVALID] * 3
    assert sorted(fates[[0, 3, 4, 5]]) == [Fate.TRAINED] * 2 + [Fate.DOWN_SAMPLED] * 2
    assert fates[0] == Fate.TRAINED


@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "rloo"])
def test_loss_uses_the_subsets_advantages_and_priorities_the_whole_groups(kind):
    config = settings(
        algorithm={"advantage": kind}, downsampling=pods(4), replay=reuse(priority="advantage")
    )
    composition = composed([graded("cwwwwwwt")], config)
    trained = composition.fates[0] == Fate.TRAINED
    subset = advantages(np.array([1.0, 0, 0, 0]), kind, config.algorithm.std_eps)
    whole = np.abs(advantages(np.array([1.0, 0, 0, 0, 0, 0, 0]), kind, config.algorithm.std_eps))
    assert composition.batch.advantage.tolist() == subset.astype(np.float32).tolist()
    assert composition.priorities[0][trained].tolist() == whole[:4].tolist()
    assert np.isnan(composition.priorities[0][~trained]).all()


def test_the_other_priorities_are_the_groups_deviation_and_a_constant():
    groups = [graded("cwww"), graded("ccwwt", 1)]
    by_std = composed(groups, settings(replay=reuse(priority="group_std"))).priorities
    assert by_std[0] == pytest.approx([np.sqrt(3) / 4] * 4)
    assert by_std[1] == pytest.approx([0.5] * 4 + [np.nan], nan_ok=True)
    uniform = composed(groups, settings(replay=reuse(priority="uniform"))).priorities
    assert uniform[0].tolist() == [1.0] * 4


def test_rescued_rollouts_are_trained_once_and_never_stored():
    config = settings(avspo=AVSPO, replay=reuse(ratio=1.0))
    groups = [graded("wwww", 0), graded("ccc", 1), graded("cw", 2)]
    composition = composed(groups, config)
    assert [fate.tolist() for fate in composition.fates] == [
        [Fate.RESCUED] * 4,
        [Fate.RESCUED] * 3,
        [Fate.TRAINED] * 2,
    ]
    assert len(set(rows_of(composition.batch))) == composition.batch.rows == 9
    assert np.isnan(composition.priorities[0]).all() and np.isnan(composition.priorities[1]).all()
    assert composition.storable == 2 and replay_rows(composition, config.replay.reuse) == 2
    store = replay_with(config, groups)
    assert (store.rollouts, store.groups) == (2, 1)


def test_all_wrong_is_discouraged_and_all_correct_encouraged():
    composition = composed([graded("wwww", 0), graded("ccc", 1)], settings(avspo=AVSPO))
    wrong, right = (composition.advantages[i] for i in range(2))
    assert (wrong < 0).all() and (right > 0).all()
    assert len(set(wrong)) == len(set(right)) == 1


def test_rescue_counts_the_kept_subset():
    collapsed = graded("wwwwwwww", 0)
    config = settings(avspo=AVSPO, downsampling=pods(3))
    composition = composed([collapsed], config)
    same = composed([graded("www", 0)], settings(avspo=AVSPO))
    assert composition.metrics["avspo/virtual"] == virtual_count(3, 1.0, config.avspo.alpha)
    assert composition.batch.advantage.tolist() == same.batch.advantage.tolist()
    assert sorted(composition.fates[0]) == [Fate.RESCUED] * 3 + [Fate.DOWN_SAMPLED] * 5
    assert np.isnan(composition.advantages[0]).sum() == 5


def test_a_group_that_lost_its_spread_to_down_sampling_did_not_collapse():
    config = settings(avspo=AVSPO, downsampling=pods(2, "max_reward"))
    composition = composed([graded("wwww", 0), graded("cccw", 1)], config)
    assert composition.metrics["acr/group"] == 0.5
    assert composition.fates[1].tolist() == [Fate.DROPPED_NO_SIGNAL] * 4
    everything_collapsed = composed([graded("wwww", 0), graded("ccw", 1), graded("ww", 2)], config)
    assert sorted(everything_collapsed.fates[0]) == [Fate.RESCUED] * 2 + [Fate.DOWN_SAMPLED] * 2
    assert everything_collapsed.fates[1].tolist() == [Fate.DROPPED_NO_SIGNAL] * 3


def test_the_trigger_decides_by_its_state_before_the_step():
    config = settings(avspo={**AVSPO, "eta": 1.0})
    groups = [graded("cw", 0), graded("ww", 1)]
    before = TriggerState(tau=0.4, acr=None, reward=0.0)
    composition = compose(groups, 4, 3, before, config)
    assert composition.trigger == observe(before, 0.5, 0.25, config.avspo)
    assert composition.trigger == TriggerState(tau=0.5, acr=0.5, reward=0.25)
    assert composition.metrics["avspo/threshold"] == 0.4
    assert composition.metrics["rollouts/rescued"] == 2
    after = compose(groups, 5, 4, composition.trigger, config)
    assert after.metrics["avspo/threshold"] == 0.5 and after.metrics["rollouts/rescued"] == 0


def test_a_step_without_a_verdict_leaves_the_trigger_as_it_is():
    config = settings(avspo=AVSPO)
    before = TriggerState(tau=0.4, acr=0.7, reward=0.1)
    composition = compose([graded("tt")], 4, 3, before, config)
    assert composition.trigger == before and "avspo/threshold" not in composition.metrics


def test_every_dropped_rollout_has_its_reason():
    config = settings(algorithm={"overlong": {"kind": "mask"}}, downsampling=pods(2))
    groups = [
        graded("cccc", 0, cut=[0]),
        graded("cw", 1, cut=[1]),
        graded("cw", 2, cut=[0, 1]),
        graded("cct", 3),
    ]
    assert [fate.tolist() for fate in composed(groups, config).fates] == [
        [Fate.DROPPED_NO_SIGNAL] * 4,
        [Fate.TRAINED, Fate.DROPPED_OVERLONG],
        [Fate.DROPPED_OVERLONG] * 2,
        [Fate.DROPPED_NO_SIGNAL, Fate.DROPPED_NO_SIGNAL, Fate.INVALID],
    ]


def test_a_masked_overlong_rollout_stays_in_statistics_and_leaves_loss_and_denominator():
    masked = settings(algorithm={"overlong": {"kind": "mask"}}, replay=reuse())
    groups = [graded("cwww", cut=[1])]
    without, composition = composed(groups, settings(replay=reuse())), composed(groups, masked)
    assert composition.advantages[0].tolist() == without.advantages[0].tolist()
    assert composition.metrics["reward/mean"] == 0.25
    assert composition.batch.sibling.tolist() == [0, 2, 3]
    assert composition.batch.advantage.tolist() == without.batch.advantage[[0, 2, 3]].tolist()
    tokens = 9 + 11 + 12
    weights = normalise(composition.batch, "token_mean", 20).weight
    assert weights.tolist() == [np.float32(1 / tokens)] * 3
    assert composition.metrics["tokens/trained"] == tokens
    assert np.isnan(composition.priorities[0][1]) and composition.storable == 3


def test_a_length_penalty_gives_a_collapsed_group_no_signal():
    config = settings(algorithm={"overlong": {"kind": "penalty", "cache": 10}})
    composition = composed([graded("cccc", 0), graded("cccw", 1)], config)
    assert composition.fates[0].tolist() == [Fate.DROPPED_NO_SIGNAL] * 4
    rewards = np.array([1.0, 0.95, 0.9, -0.15])
    assert composition.advantages[1] == pytest.approx(rewards - rewards.mean())
    assert (composition.metrics["acr/group"], composition.metrics["reward/mean"]) == (0.5, 7 / 8)


@pytest.mark.parametrize("group_id", range(6))
def test_down_sampling_sees_the_rewards_that_are_trained_on(group_id):
    """Of equally right rollouts the penalty makes the shortest the best."""
    penalty = {"overlong": {"kind": "penalty", "cache": 10}}
    config = settings(algorithm=penalty, downsampling=pods(2))
    assert composed([graded("cccw", group_id)], config).batch.sibling.tolist() == [0, 3]


def test_a_rescue_sees_no_length_penalty():
    penalised = settings(algorithm={"overlong": {"kind": "penalty", "cache": 10}}, avspo=AVSPO)
    with_penalty = composed([graded("cccc")], penalised)
    without = composed([graded("cccc")], settings(avspo=AVSPO))
    assert with_penalty.batch.advantage.tolist() == without.batch.advantage.tolist() != []


def test_reinforce_pp_normalises_over_the_fresh_rows_with_signal():
    config = settings(algorithm={"advantage": "reinforce_pp"})
    useful = [graded("cwww", 1), graded("wct", 2)]
    among = [graded("cc", 3), useful[0], graded("tt", 4), useful[1]]
    centred = np.array([0.75, -0.25, -0.25, -0.25, -0.5, 0.5])
    expected = centred / (centred.std() + config.algorithm.std_eps)
    for groups in (useful, among):
        assert composed(groups, config).batch.advantage == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("letters", [("cwww", "cw", "ccwwww"), ("cwtt", "cwww", "wwww")])
def test_every_prompt_pulls_equally_under_vip_alone(letters):
    groups = [graded(text, i) for i, text in enumerate(letters)]
    plain = composed(groups, DR_GRPO).batch
    weighted = composed(groups, settings(allocator=VIP)).batch
    assert plain.weight.tolist() == [1.0] * plain.rows
    assert weighted.weight.mean() == pytest.approx(1.0)
    pulls = summed_by_prompt(weighted)
    assert pulls == pytest.approx([pulls[0]] * len(weighted.handles))
    assert len(set(summed_by_prompt(plain))) > 1


GROUPS = [graded("cwww", 11), graded("wwww", 12), graded("ccwt", 13)]
OLD = [graded("ccw", 1, birth=1), graded("cwwww", 2, birth=2)]


def replay_with(config, groups, step=3):
    """A replay buffer that holds the `groups` of an earlier step."""
    store = ExperienceReplay(config.replay.reuse, config.seed)
    keep(store, groups, composed(groups, config, step))
    return store


def keep(store, groups, composition):
    columns = zip(groups, composition.advantages, composition.priorities, strict=True)
    for group, scores, weights in columns:
        store.keep(group, scores, weights)


def with_draw(config, groups=GROUPS, old=OLD, step=4):
    """The fresh composition, and the one with replay, in the loop's order."""
    store, settings_ = replay_with(config, old), config.replay.reuse
    fresh = composed(groups, config, step)
    store.evict(3)
    if settings_.composition == "pool":
        keep(store, groups, fresh)
        drawn = store.draw(step, 3, pool_rows(fresh, settings_))
        return fresh, drawn, pooled(fresh, drawn)
    drawn = store.draw(step, 3, replay_rows(fresh, settings_))
    return fresh, drawn, anchored(fresh, drawn)


def test_all_fresh_rows_stay_beside_the_drawn_ones():
    config = settings(replay=reuse(ratio=0.5))
    fresh, drawn, composition = with_draw(config)
    batch, count = composition.batch, fresh.batch.rows
    assert (count, drawn.rows, batch.rows) == (7, 4, 11)
    for name in ("sibling", "advantage", "weight", "length", "trained_tokens"):
        assert np.array_equal(getattr(batch, name)[:count], getattr(fresh.batch, name))
    assert rows_of(batch)[:count] == rows_of(fresh.batch)
    drawn_rows = [(h.summary.group_id, s) for h, s in rows_of(batch)[count:]]
    assert len(set(drawn_rows)) == 4 and {group for group, _ in drawn_rows} <= {1, 2}
    assert batch.advantage[count:].tolist() == drawn.advantage.tolist()
    assert batch.weight[count:].tolist() == [1.0] * 4
    assert (batch.step, batch.version) == (4, 3)
    assert composition.metrics["rollouts/replayed"] == 4
    assert composition.metrics["replay/age_max"] == drawn.ages.max() <= 2
    assert composition.metrics["tokens/trained"] == batch.trained_tokens.sum()
    assert composition.metrics["tokens/wasted"] == fresh.metrics["tokens/wasted"]


def test_replayed_rows_never_move_raw_measures_fates_or_advantages():
    fresh, _, composition = with_draw(settings(replay=reuse(), avspo=AVSPO))
    raw = [n for n in fresh.metrics if n.startswith(("reward", "acr", "verdict", "lag"))]
    assert {n: composition.metrics[n] for n in raw} == {n: fresh.metrics[n] for n in raw}
    assert composition.trigger == fresh.trigger
    for name in ("fates", "advantages", "priorities"):
        assert getattr(composition, name) is getattr(fresh, name)


def test_the_pool_trains_on_drawn_and_rescued_rows_alone():
    config = settings(replay=reuse(composition="pool", ratio=0.5), avspo={**AVSPO, "tau": 0.2})
    fresh, drawn, composition = with_draw(config)
    assert fresh.storable == 7 and drawn.rows == 7 + 4
    keys = [
        (handle if isinstance(handle, str) else handle.handle, sibling)
        for handle, sibling in rows_of(composition.batch)
    ]
    assert len(set(keys)) == len(keys) == 4 + 11
    assert keys[:4] == [("handle-12", i) for i in range(4)]
    taken = {key for key in keys[4:] if key[0] in ("handle-11", "handle-13")}
    fates = {
        (f"handle-{group_id}", sibling): fate
        for group_id, own in zip(composition.group_ids, composition.fates, strict=True)
        for sibling, fate in enumerate(own)
    }
    assert {key for key, fate in fates.items() if fate == Fate.TRAINED} == taken
    assert {key for key, fate in fates.items() if fate == Fate.POOLED} == {
        key for key in rows_of(fresh.batch) if key[0] != "handle-12"
    } - taken
    assert fates["handle-13", 3] == Fate.INVALID
    assert composition.metrics["rollouts/pooled"] == 7 - len(taken)
    assert composition.metrics["rollouts/replayed"] == 11 - len(taken)


def test_tokens_of_the_step_that_the_pool_did_not_take_are_wasted():
    _, drawn, composition = with_draw(settings(replay=reuse(composition="pool", ratio=0.1)))
    own = drawn.trained_tokens[np.isin(drawn.group_ids[drawn.group], [11, 13])].sum()
    metrics = composition.metrics
    assert 0 < own < drawn.trained_tokens.sum() == metrics["tokens/trained"]
    assert metrics["tokens/wasted"] == metrics["tokens/generated"] - own


def test_before_replay_starts_the_pool_is_the_fresh_rows():
    config = settings(replay=reuse(composition="pool", start_step=5))
    fresh, drawn, composition = with_draw(config)
    assert drawn.rows == 0 and composition.batch is fresh.batch
    assert composition.metrics == {**fresh.metrics, "rollouts/replayed": 0.0}


letters = st.text("ccwwnte", min_size=1, max_size=8)
some_groups = st.lists(st.tuples(letters, st.randoms(use_true_random=False)), max_size=7)


def realised(drawn, first=0):
    """Groups of the drawn letters, some siblings aborted or cut, some born earlier."""
    return [
        graded(
            text,
            first + i,
            aborted=[s for s in range(len(text)) if chance.random() < 0.1],
            birth=chance.randint(0, 3),
            cut=[s for s in range(len(text)) if chance.random() < 0.2],
        )
        for i, (text, chance) in enumerate(drawn)
    ]


@st.composite
def all_methods(draw):
    """Configurations of every method, alone and together."""
    rescuing = draw(st.booleans())
    kinds = ["grpo", "dr_grpo", "rloo"] + ([] if rescuing else ["reinforce_pp"])
    overlong = [{"kind": "none"}, {"kind": "mask"}, {"kind": "penalty", "cache": 8}]
    rules = st.sampled_from(["max_variance", "random", "max_reward", "percentile"])
    down_sampling = st.builds(pods, st.integers(2, 6), rules)
    trigger = st.sampled_from([0.1, 0.5, 0.9])
    rescue = st.builds(
        lambda tau, share: {**AVSPO, "tau": tau, "max_share": share},
        trigger,
        st.sampled_from([0.25, 1.0]),
    )
    replay = st.builds(
        lambda ratio, composition, priority: reuse(
            ratio=ratio, composition=composition, priority=priority
        ),
        st.sampled_from([0.2, 1.0, 3.0]),
        st.sampled_from(["anchored", "pool"]),
        st.sampled_from(["advantage", "group_std", "uniform"]),
    )
    return settings(
        seed=draw(st.integers(0, 9)),
        algorithm={
            "advantage": draw(st.sampled_from(kinds)),
            "overlong": draw(st.sampled_from(overlong)),
        },
        downsampling=draw(st.just({"kind": "none"}) | down_sampling),
        avspo=draw(rescue) if rescuing else {"kind": "none"},
        allocator=draw(st.sampled_from([{"kind": "uniform"}, VIP])),
        replay=draw(replay),
    )


@given(all_methods(), some_groups)
def test_raw_measures_are_those_of_plain_grpo_whatever_the_methods(config, drawn):
    groups = realised(drawn)
    plain, methods = composed(groups, DR_GRPO), composed(groups, config)
    for name in plain.metrics:
        if name.startswith(("reward", "acr", "verdict", "lag", "tokens/generated")):
            assert methods.metrics[name] == plain.metrics[name], name
    if methods.trigger is not None and "acr/group" in plain.metrics:
        means = [g.rewards[f != Fate.INVALID] for g, f in zip(groups, plain.fates, strict=True)]
        per_prompt = np.mean([own.mean() for own in means if len(own)])
        assert methods.trigger.reward == pytest.approx(per_prompt)
        assert methods.trigger.acr == plain.metrics["acr/group"]


@given(all_methods(), some_groups)
def test_what_the_predictor_observes_is_raw(config, drawn):
    groups = realised(drawn)
    fates = composed(groups, config).fates
    observation = observe_outcomes(groups, config.verifier)
    valid = [fate != Fate.INVALID for fate in fates]
    assert observation.counts.tolist() == [own.sum() for own in valid]
    assert observation.successes.tolist() == [
        group.rewards[own].sum() for group, own in zip(groups, valid, strict=True)
    ]


@given(all_methods(), some_groups, some_groups)
def test_every_rollout_is_accounted_for_whatever_the_methods(config, drawn, drawn_before):
    groups, old = realised(drawn, first=100), realised(drawn_before)
    fresh, replayed, final = with_draw(config, groups, old)
    for composition in (fresh, final):
        metrics, fates = composition.metrics, composition.fates
        assert [len(fate) for fate in fates] == [g.summary.size for g in groups]
        ends = ("trained", "rescued", "down_sampled", "dropped", "pooled", "invalid")
        assert sum(metrics[f"rollouts/{end}"] for end in ends) == metrics["rollouts/generated"]
        assert metrics["rollouts/generated"] == sum(g.summary.size for g in groups)
        learned = metrics["rollouts/trained"] + metrics["rollouts/rescued"]
        assert composition.batch.rows == learned + metrics.get("rollouts/replayed", 0)
        assert metrics["tokens/trained"] == composition.batch.trained_tokens.sum()
        assert metrics["tokens/wasted"] >= 0
        assert all(np.isfinite(value) for value in metrics.values())
        assert np.isfinite(composition.batch.advantage).all()
    if final is not fresh:
        assert final.metrics["rollouts/replayed"] <= replayed.rows


@given(all_methods(), some_groups)
def test_rows_and_fates_tell_the_same_story(config, drawn):
    groups = realised(drawn)
    composition = composed(groups, config)
    told = [
        (group.handle, sibling)
        for group, fate in zip(groups, composition.fates, strict=True)
        for sibling in np.flatnonzero(np.isin(fate, [Fate.TRAINED, Fate.RESCUED])).tolist()
    ]
    assert rows_of(composition.batch) == told
    for group, fate, weights in zip(groups, composition.fates, composition.priorities, strict=True):
        raw = group.rewards[fate != Fate.INVALID]
        mixed = len(set(raw)) > 1
        assert mixed or Fate.TRAINED not in fate
        assert not mixed or Fate.RESCUED not in fate
        assert np.array_equal(~np.isnan(weights), fate == Fate.TRAINED)
        assert config.downsampling.kind == "pods" or Fate.DOWN_SAMPLED not in fate
        assert (fate[group.summary.finish == Finish.ABORT] == Fate.INVALID).all()


@given(all_methods(), some_groups)
def test_a_groups_selection_does_not_depend_on_the_rest_of_the_batch(config, drawn):
    """Only what is about the whole batch, the rescue and its share, may."""
    groups = realised(drawn)
    alone = settings(**{**config.model_dump(), "avspo": {"kind": "none"}})
    if alone.algorithm.advantage == "reinforce_pp":
        return
    together = composed(groups, alone)
    for group, fate, scores in zip(groups, together.fates, together.advantages, strict=True):
        single = composed([group], alone)
        assert single.fates[0].tolist() == fate.tolist()
        assert np.array_equal(single.advantages[0], scores, equal_nan=True)


@given(all_methods(), some_groups)
def test_rescued_rows_keep_their_share_of_what_pulls(config, drawn):
    """Whatever leaves the loss, and however rows are weighted: the cap is on the update itself."""
    composition = composed(realised(drawn), config)
    if config.avspo.kind == "none" or composition.batch.rows == 0:
        return
    fates = np.concatenate([f[np.isin(f, [Fate.TRAINED, Fate.RESCUED])] for f in composition.fates])
    pull = composition.batch.weight * np.abs(composition.batch.advantage.astype(np.float64))
    if pull.sum():
        share = pull[fates == Fate.RESCUED].sum() / pull.sum()
        assert share <= config.avspo.max_share + 1e-6
        assert share == pytest.approx(composition.metrics["avspo/share"], abs=1e-6)


@pytest.mark.parametrize("text", ["t", "te", "c", "ww", "cc"])
def test_nothing_to_train_on_draws_nothing_and_has_no_rows(text):
    config = settings(
        downsampling=pods(2), avspo={**AVSPO, "max_share": 0.25}, allocator=VIP, replay=reuse()
    )
    fresh, drawn, composition = with_draw(config, [graded(text, 20)])
    assert fresh.batch.rows == drawn.rows == composition.batch.rows == 0
    assert composition.batch.handles == ()
    assert composition.metrics["rollouts/generated"] == len(text)
