import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from rlvr_platform.replay.sum_tree import SumTree

# Multiples of 1/8 add up without rounding: the tree's sums can be compared exactly.
eighths = st.integers(0, 80).map(lambda n: n / 8)


def tree_of(weights: list[float] | np.ndarray, capacity: int = 2) -> SumTree:
    tree = SumTree(capacity)
    tree.set(np.arange(len(weights)), np.asarray(weights, float))
    return tree


def law_without_replacement(weights: np.ndarray, count: int) -> dict[tuple[int, ...], float]:
    """Probability of every ordered draw: each pick in proportion among those not yet picked."""
    law = {}
    for order in itertools.permutations(range(len(weights)), count):
        left, chance = weights.sum(), 1.0
        for pick in order:
            chance *= weights[pick] / left
            left -= weights[pick]
        law[order] = chance
    return law


@given(st.lists(st.lists(st.tuples(st.integers(0, 40), eighths), max_size=12), max_size=8))
def test_weights_and_total_equal_those_of_a_list_after_any_updates(
    batches: list[list[tuple[int, float]]],
) -> None:
    tree, model = SumTree(2), np.zeros(41)
    for batch in batches:
        index = np.array([i for i, _ in batch], np.int64)
        tree.set(index, np.array([w for _, w in batch]))
        for i, weight in batch:
            model[i] = weight
    assert tree.total == model.sum()
    shared = min(tree.capacity, len(model))
    assert tree.weights(shared).tolist() == model[:shared].tolist()
    assert not model[shared:].any()


@given(st.lists(eighths, min_size=1, max_size=40), st.lists(st.floats(0, 0.999), max_size=10))
def test_find_inverts_the_cumulative_sum(weights: list[float], shares: list[float]) -> None:
    total = sum(weights)
    if not total:
        return
    prefix = np.array(shares) * total
    expected = np.searchsorted(np.cumsum(weights), prefix, side="right")
    assert tree_of(weights).find(prefix).tolist() == expected.tolist()


@given(
    st.lists(st.sampled_from([0.0, 1e-300, 1e-9, 0.1, 1 / 3, 1e9]), min_size=1, max_size=64),
    st.integers(0, 2**32 - 1),
)
def test_rounding_never_finds_a_leaf_of_weight_zero(weights: list[float], seed: int) -> None:
    tree = tree_of(weights)
    if not tree.total:
        return
    prefix = np.random.default_rng(seed).random(50) * tree.total
    edges = np.cumsum(weights)[:-1]
    edge_of_total = np.nextafter(tree.total, 0)
    inside = np.concatenate([prefix, edges[edges < tree.total], [edge_of_total]])
    assert (np.array(weights)[tree.find(inside)] > 0).all()


def test_a_prefix_that_rounds_up_to_the_end_of_a_subtree_stays_in_it() -> None:
    # 2**52 + 3 - 1.5 lies half-way and rounds to 2**52 + 2, the whole of the right subtree.
    tree = tree_of([1.5, 0.0, 2.0**52 + 2, 0.0])
    assert tree.find(np.array([2.0**52 + 3])).tolist() == [2]


@given(st.integers(0, 2**32 - 1))
def test_sums_do_not_drift_over_updates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = SumTree(64)
    for _ in range(50):
        tree.set(rng.integers(0, 64, 8), 10.0 ** rng.integers(-12, 12, 8))
    final = rng.random(64)
    tree.set(np.arange(64), final)
    assert tree.total == tree_of(final).total


def test_growth_keeps_weights_and_finds_the_same_leaves() -> None:
    weights = np.random.default_rng(0).random(100)
    grown, roomy = SumTree(2), tree_of(weights, capacity=4096)
    for i, weight in enumerate(weights):
        grown.set(np.array([i]), np.array([weight]))
    assert (grown.capacity, roomy.capacity) == (128, 4096)
    assert grown.total == roomy.total
    prefix = np.linspace(0, grown.total, 1000, endpoint=False)
    assert grown.find(prefix).tolist() == roomy.find(prefix).tolist()


@pytest.mark.parametrize(
    ("index", "weight"), [(0, -1.0), (0, np.nan), (0, np.inf), (-1, 1.0)], ids=str
)
def test_illegal_weights_and_leaves_are_refused(index: int, weight: float) -> None:
    with pytest.raises(ValueError, match="finite weights >= 0 at indices >= 0"):
        SumTree().set(np.array([index]), np.array([weight]))


@pytest.mark.parametrize("prefix", [-0.1, 3.0, np.nan])
def test_prefixes_outside_the_total_are_refused(prefix: float) -> None:
    with pytest.raises(ValueError, match=r"\[0, 3.0\)"):
        tree_of([1.0, 2.0]).find(np.array([prefix]))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_samples_follow_the_law_of_successive_sampling(count: int) -> None:
    weights = np.array([1.0, 4.0, 0.5, 2.0, 0.25])
    law = law_without_replacement(weights, count)
    tree, rng = tree_of(weights), np.random.default_rng(count)
    seen = dict.fromkeys(law, 0)
    draws = 8000
    for _ in range(draws):
        seen[tuple(tree.sample(count, rng).tolist())] += 1
    expected = np.array(list(law.values())) * draws
    # Rare orders together: the test's approximation wants five expected in each class.
    rare = expected < 5
    counts = np.array(list(seen.values()))
    observed = np.append(counts[~rare], counts[rare].sum())
    pooled = np.append(expected[~rare], expected[rare].sum())
    keep = pooled > 0
    assert chisquare(observed[keep], pooled[keep]).pvalue > 1e-3


def test_the_law_holds_when_repetitions_force_further_rounds() -> None:
    """One leaf takes nearly all picks, so that the others come from rounds without it."""
    weights = np.array([1e9, 3.0, 2.0, 1.0])
    law = law_without_replacement(weights[1:], 2)
    tree, rng = tree_of(weights), np.random.default_rng(0)
    seen = dict.fromkeys(law, 0)
    for _ in range(6000):
        first, *others = tree.sample(3, rng).tolist()
        assert first == 0
        seen[tuple(pick - 1 for pick in others)] += 1
    assert chisquare(list(seen.values()), np.array(list(law.values())) * 6000).pvalue > 1e-3


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-12, 0.5, 1.0, 1e12]), min_size=1, max_size=60),
    st.integers(0, 2**32 - 1),
    st.data(),
)
def test_a_sample_is_distinct_and_leaves_every_bit_as_it_was(
    weights: list[float], seed: int, data: st.DataObject
) -> None:
    tree = tree_of(weights)
    before = tree.weights(tree.capacity).tolist(), tree.total
    positive = int(np.count_nonzero(weights))
    count = data.draw(st.integers(0, positive))
    picks = tree.sample(count, np.random.default_rng(seed))
    assert len(set(picks.tolist())) == len(picks) == count
    assert (np.array(weights)[picks] > 0).all()
    with pytest.raises(ValueError, match="prefixes must lie in"):
        tree.sample(positive + 1, np.random.default_rng(seed))
    assert (tree.weights(tree.capacity).tolist(), tree.total) == before
