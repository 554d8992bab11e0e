from functools import cache
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from rlvr_platform.algorithms.advantages import advantages
from rlvr_platform.algorithms.downsampling import (
    LARGEST_REWARD,
    downsample,
    sibling_keys,
    splitmix64,
    subset_variance,
)
from rlvr_platform.errors import ConfigError

RULES = ["max_variance", "random", "max_reward", "percentile"]
BASELINES = RULES[1:]
tied = st.sampled_from([0.0, 0.1, 0.25, 0.3, 1.0])
"""Rewards with many ties, some of which have no exact binary form."""
real = st.floats(-1, 1)
groups_of_rewards = st.one_of(
    st.lists(values, min_size=2, max_size=14).map(np.array)
    for values in (tied, st.sampled_from([0.0, 1.0]), real)
)


def select(rewards, keep, rule="max_variance", seed=0, group_id=0):
    return downsample([np.asarray(rewards)], keep, rule, seed, np.array([group_id]))[0]


def kept_rewards(rewards, keep, rule="max_variance", seed=0, group_id=0):
    """The multiset of kept rewards, ascending."""
    rewards = np.asarray(rewards)
    return sorted(rewards[select(rewards, keep, rule, seed, group_id)])


@cache
def subsets(size, keep):
    return np.array(list(combinations(range(size), keep)))


def largest_variance(rewards, keep):
    return np.var(rewards[subsets(len(rewards), keep)], axis=1).max()


def assert_optimal(rewards, keep):
    kept = select(rewards, keep)
    assert len(set(kept)) == keep
    assert abs(subset_variance(rewards, kept) - largest_variance(rewards, keep)) <= 1e-12


@given(groups_of_rewards, st.data())
def test_variance_equals_the_best_of_all_subsets(rewards, data):
    assert_optimal(rewards, data.draw(st.integers(2, max(2, len(rewards) - 1))))


@pytest.mark.parametrize("size", range(3, 15))
def test_variance_equals_the_best_of_all_subsets_for_every_m(size):
    generator = np.random.default_rng(size)
    for keep in range(2, size):
        for levels in (2, 3, 7):
            assert_optimal(generator.integers(0, levels, size) / 10, keep)
        assert_optimal(generator.normal(size=size), keep)
        assert_optimal(generator.exponential(size=size) ** 3, keep)
        assert_optimal(1e8 + generator.random(size), keep)


@pytest.mark.parametrize("size", range(3, 8))
def test_of_equal_splits_the_most_balanced_wins_then_the_one_with_more_high_rewards(size):
    for keep in range(2, size):
        for ordered in combinations_with_replacement(range(5), size):
            splits = [ordered[: keep - k] + ordered[size - k :] for k in range(keep + 1)]
            # m^2 times the variance, exact in integers.
            variance = [keep * sum(r * r for r in split) - sum(split) ** 2 for split in splits]
            equal = [k for k in range(keep + 1) if variance[k] == max(variance)]
            winner = min(equal, key=lambda k: (abs(2 * k - keep), -k))
            assert kept_rewards(np.array(ordered) / 5, keep) == sorted(
                r / 5 for r in splits[winner]
            )


@pytest.mark.parametrize(
    ("rewards", "keep", "kept"),
    [
        ([0, 1, 3, 3, 3], 4, [0, 1, 3, 3]),  # {0, 3, 3, 3} has the variance 27/16 as well
        ([0, 0, 0, 2, 3], 4, [0, 0, 2, 3]),  # {0, 0, 0, 3} likewise
        ([0, 1, 2], 2, [0, 2]),
        ([0, 0, 1, 1], 3, [0, 1, 1]),
    ],
)
def test_equal_splits_by_hand(rewards, keep, kept):
    assert kept_rewards(rewards, keep) == kept


@pytest.mark.parametrize(
    ("correct", "keep", "kept_correct"),
    [
        (32, 16, 8),
        (8, 16, 8),
        (5, 16, 5),  # class shortage: all of the smaller, filled from the other
        (1, 16, 1),
        (60, 16, 12),
        (0, 16, 0),
        (64, 16, 16),
        (32, 15, 8),  # odd m: one more high than low
        (7, 15, 7),
        (61, 15, 12),
        (32, 2, 1),
        (32, 3, 2),
    ],
)
def test_binary_rewards_keep_half_of_each_class(correct, keep, kept_correct):
    rewards = np.zeros(64)
    rewards[np.random.default_rng(correct).permutation(64)[:correct]] = 1
    assert sum(kept_rewards(rewards, keep)) == kept_correct


@given(st.lists(st.sampled_from([-1.0, 1.0]), min_size=3, max_size=80), st.data())
def test_binary_closed_form(values, data):
    keep = data.draw(st.integers(2, len(values) - 1))
    positive = values.count(1.0)
    # ceil(m/2) of the positive, as far as both classes have enough.
    wanted = min(positive, max((keep + 1) // 2, keep - (len(values) - positive)))
    assert kept_rewards(np.array(values), keep).count(1.0) == wanted


@given(groups_of_rewards, st.sampled_from(RULES[:1] + RULES[2:]), st.randoms(), st.integers(2, 8))
def test_kept_rewards_do_not_depend_on_the_order_of_arrival(rewards, rule, random, keep):
    shuffled = rewards.tolist()
    random.shuffle(shuffled)
    assert kept_rewards(shuffled, keep, rule) == kept_rewards(rewards, keep, rule)


@given(
    st.lists(st.integers(0, 9), min_size=3, max_size=20).filter(lambda v: len(set(v)) > 1),
    st.sampled_from([2.0**-700, 2.0**-30, 8.0, 2.0**400]),
    st.integers(2, 10),
)
def test_the_choice_does_not_depend_on_the_scale_of_the_rewards(values, scale, keep):
    rewards = np.array(values, float)
    assert select(scale * rewards, keep).tolist() == select(rewards, keep).tolist()


@given(groups_of_rewards, st.sampled_from(RULES), st.integers(2, 16))
def test_kept_are_sorted_distinct_siblings_and_small_groups_stay_whole(rewards, rule, keep):
    kept = select(rewards, keep, rule)
    assert kept.dtype == np.int64
    assert len(kept) == min(keep, len(rewards))
    assert (np.diff(kept) > 0).all()
    assert kept[0] >= 0 and kept[-1] < len(rewards)
    if keep >= len(rewards):
        assert kept.tolist() == list(range(len(rewards)))


@given(st.lists(real, min_size=3, max_size=40), st.data())
def test_max_reward_keeps_the_highest(rewards, data):
    keep = data.draw(st.integers(2, len(rewards)))
    assert kept_rewards(rewards, keep, "max_reward") == sorted(rewards)[-keep:]


@pytest.mark.parametrize(
    ("size", "keep", "ranks"),
    [
        (9, 3, [0, 4, 8]),
        (9, 2, [0, 8]),
        (8, 3, [0, 4, 7]),  # 3.5 rounds up
        (10, 4, [0, 3, 6, 9]),
        (6, 5, [0, 1, 3, 4, 5]),  # 1.25, 2.5, 3.75
    ],
)
def test_percentile_keeps_evenly_spaced_ranks(size, keep, ranks):
    rewards = np.random.default_rng(0).permutation(size).astype(float)
    assert kept_rewards(rewards, keep, "percentile") == ranks


def test_rewards_may_be_integers_or_booleans():
    for dtype in (np.int64, np.bool_, np.float32):
        rewards = (np.arange(20) % 3 == 0).astype(dtype)
        assert select(rewards, 6).tolist() == select(rewards.astype(np.float64), 6).tolist()


@given(groups_of_rewards, st.sampled_from(["grpo", "dr_grpo", "rloo"]), st.integers(2, 8))
def test_advantages_of_the_kept_sum_to_zero(rewards, kind, keep):
    kept = rewards[select(rewards, keep)]
    assert advantages(kept, kind, 1e-6).sum() == pytest.approx(0, abs=1e-6)


def test_advantages_from_the_whole_group_would_not_sum_to_zero():
    rewards = np.array([1.0] + [0.0] * 15)
    kept = select(rewards, 4)
    assert abs(advantages(rewards, "grpo", 1e-6)[kept].sum()) > 1
    assert advantages(rewards[kept], "grpo", 1e-6).sum() == pytest.approx(0, abs=1e-12)


def inclusion_p_value(counts, trials, kept):
    """Chi-square p-value of `counts` [c] against choosing `kept` of c uniformly, `trials` times.

    Counts of a draw without replacement have covariance trials * f(1 - f) c / (c - 1) times the
    centring projection, f = kept / c; scaled by it the statistic has c - 1 degrees of freedom.
    """
    classes = len(counts)
    share = kept / classes
    scale = trials * share * (1 - share) * classes / (classes - 1)
    return chi2.sf(((counts - trials * share) ** 2).sum() / scale, classes - 1)


TRIALS = 4000


def chosen_in_trials(rewards, keep, rule, vary):
    """bool [TRIALS, n]: kept in each trial; trials differ in group id or in seed."""
    chosen = np.zeros((TRIALS, len(rewards)), bool)
    if vary == "group":
        kept = downsample([rewards] * TRIALS, keep, rule, 7, np.arange(TRIALS))
    else:
        kept = [select(rewards, keep, rule, seed, 7) for seed in range(TRIALS)]
    for row, indices in zip(chosen, kept, strict=True):
        row[indices] = True
    return chosen


@pytest.mark.parametrize("vary", ["group", "seed"])
@pytest.mark.parametrize(
    ("rule", "keep", "correct", "kept_of_correct"),
    [
        ("max_variance", 8, 12, 4),
        ("max_variance", 15, 5, 5),  # shortage: the zeros come from both ends of the order
        ("max_variance", 6, 0, 0),  # a group of equal rewards
        ("max_reward", 4, 12, 4),
        ("max_reward", 20, 12, 12),
    ],
)
def test_choice_inside_a_class_is_uniform_whatever_the_arrival_order(
    rule, keep, correct, kept_of_correct, vary
):
    # Wrong completions are longer, and short ones arrive first: position means length.
    rewards = np.r_[np.ones(correct), np.zeros(32 - correct)]
    lengths = np.sort(np.random.default_rng(0).lognormal(5, 1, 32))
    chosen = chosen_in_trials(rewards, keep, rule, vary)
    for members, kept in (
        (slice(0, correct), kept_of_correct),
        (slice(correct, 32), keep - kept_of_correct),
    ):
        counts = chosen[:, members].sum(axis=0)
        if kept in (0, len(counts)):
            assert (counts == (TRIALS if kept else 0)).all()
            continue
        assert inclusion_p_value(counts, TRIALS, kept) > 1e-3
        mean_length = counts @ lengths[members] / counts.sum()
        assert mean_length == pytest.approx(lengths[members].mean(), rel=0.05)


def test_random_rule_is_uniform_and_blind_to_rewards():
    rewards = np.r_[np.ones(4), np.zeros(12)]
    chosen = chosen_in_trials(rewards, 6, "random", "group")
    assert inclusion_p_value(chosen.sum(axis=0), TRIALS, 6) > 1e-3
    assert (chosen == chosen_in_trials(np.arange(16.0), 6, "random", "group")).all()


def test_pairs_inside_a_class_are_uniform_too():
    chosen = chosen_in_trials(np.zeros(6), 2, "max_variance", "group").astype(int)
    pairs = (chosen.T @ chosen)[np.triu_indices(6, 1)]
    expected = TRIALS / len(pairs)
    assert chi2.sf(((pairs - expected) ** 2 / expected).sum(), len(pairs) - 1) > 1e-3


def test_the_uniformity_test_notices_a_choice_by_arrival():
    rewards = np.r_[np.ones(12), np.zeros(20)]
    by_arrival = np.argsort(rewards, kind="stable")[-4:]
    counts = np.bincount(np.tile(by_arrival, TRIALS), minlength=32)[:12]
    assert inclusion_p_value(counts, TRIALS, 4) < 1e-9


@given(
    st.lists(st.lists(tied, max_size=12).map(np.array), min_size=1, max_size=8),
    st.sampled_from(RULES),
    st.integers(0, 2**63),
    st.randoms(),
)
def test_a_group_is_chosen_from_alone_as_in_any_batch(groups, rule, seed, random):
    ids = np.array(random.sample(range(-(10**9), 10**9), len(groups)))
    order = np.array(random.sample(range(len(groups)), len(groups)))
    together = downsample(groups, 3, rule, seed, ids)
    moved = downsample([groups[i] for i in order], 3, rule, seed, ids[order])
    for place, index in enumerate(order):
        alone = downsample([groups[index]], 3, rule, seed, ids[index : index + 1])[0]
        assert alone.tolist() == together[index].tolist() == moved[place].tolist()


def test_another_seed_or_group_chooses_otherwise():
    first = select(np.zeros(64), 16, seed=1, group_id=2)
    assert select(np.zeros(64), 16, seed=1, group_id=2).tolist() == first.tolist()
    assert select(np.zeros(64), 16, seed=2, group_id=2).tolist() != first.tolist()
    assert select(np.zeros(64), 16, seed=2, group_id=1).tolist() != first.tolist()


def scalar_splitmix64(state):
    """The published generator's first output, in Python integers."""
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_the_mixer_is_splitmix64(states):
    mixed = splitmix64(np.array(states, np.uint64)).tolist()
    assert mixed == [scalar_splitmix64(state) for state in states]


def test_the_mixer_gives_the_published_first_outputs():
    states = np.array([0, 1234567], np.uint64)
    assert splitmix64(states).tolist() == [0xE220A8397B1DCDAF, 6457827717110365317]


@given(st.integers(-(2**70), 2**70), st.integers(-(2**63), 2**63 - 1))
def test_keys_of_a_group_are_successive_outputs_from_its_own_start(seed, group_id):
    start = scalar_splitmix64((scalar_splitmix64(seed % 2**64) + group_id) % 2**64)
    expected = [scalar_splitmix64((start + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(9)]
    assert sibling_keys(seed, np.array([group_id]), 9)[0].tolist() == expected


def test_nothing_to_choose_from_gives_nothing():
    assert downsample([], 4, "max_variance", 0, np.array([])) == []
    kept = downsample([np.empty(0), np.ones(1)], 4, "max_variance", 0, np.arange(2))
    assert [indices.tolist() for indices in kept] == [[], [0]]
    assert kept[0].dtype == np.int64


@pytest.mark.parametrize("keep", [1, 0, -3])
@pytest.mark.parametrize("rule", RULES)
def test_keeping_fewer_than_two_is_refused(keep, rule):
    with pytest.raises(ConfigError, match="2 or more"):
        select(np.zeros(8), keep, rule)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 10 * LARGEST_REWARD])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("size", [2, 20])
def test_rewards_that_are_no_numbers_are_refused_by_group(bad, rule, size):
    groups = [np.zeros(5), np.r_[np.zeros(size - 1), bad]]
    with pytest.raises(ValueError, match=rf"group 1 \(id 40\), sibling {size - 1}: .*verdict"):
        downsample(groups, 4, rule, 0, np.array([30, 40]))


@pytest.mark.parametrize("ids", [np.arange(2), np.array([0.5]), np.array([[1]]), np.array([])])
def test_ids_that_do_not_fit_the_groups_are_refused(ids):
    with pytest.raises(ValueError, match="1 groups need as many integer ids"):
        downsample([np.zeros(3)], 2, "random", 0, ids)


def test_rewards_in_a_table_are_refused():
    with pytest.raises(ValueError, match="group 0 must be one row"):
        downsample([np.zeros((3, 2))], 2, "random", 0, np.arange(1))


def test_subset_variance_is_the_populations():
    assert subset_variance(np.array([1.0, 5.0, 3.0]), np.array([0, 2])) == 1.0
    assert subset_variance(np.array([1, 5, 3]), np.array([1])) == 0.0
    with pytest.raises(ValueError, match="not defined"):
        subset_variance(np.array([1.0]), np.array([], np.int64))
