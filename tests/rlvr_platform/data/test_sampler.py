import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.data.sampler import PromptSampler
from rlvr_platform.errors import InputError

COUNTS, SEEDS, DRAWS = st.integers(1, 30), st.integers(0, 2**31), st.lists(st.integers(0, 70))


@given(COUNTS, SEEDS, st.booleans(), DRAWS, DRAWS)
def test_interrupted_and_restored_order_equals_the_uninterrupted_one(
    count, seed, shuffle, before, after
):
    whole = PromptSampler(count, seed, shuffle).next(sum(before) + sum(after))
    first, second = PromptSampler(count, seed, shuffle), PromptSampler(count, seed, shuffle)
    drawn = [p for n in before for p in first.next(n)]
    second.restore(json.loads(json.dumps(first.state())))
    assert drawn + [p for n in after for p in second.next(n)] == whole


@given(COUNTS, SEEDS, st.booleans(), st.integers(1, 4))
def test_every_epoch_visits_each_prompt_exactly_once(count, seed, shuffle, epochs):
    order = PromptSampler(count, seed, shuffle).next(count * epochs)
    for epoch in range(epochs):
        assert sorted(order[epoch * count : (epoch + 1) * count]) == list(range(count))


@given(COUNTS, SEEDS, DRAWS)
def test_counts_of_any_two_prompts_never_differ_by_more_than_one(count, seed, draws):
    seen = Counter(PromptSampler(count, seed, True).next(sum(draws)))
    times = [seen[p] for p in range(count)]
    assert max(times) - min(times) <= 1


def test_without_shuffle_the_order_is_the_source_order():
    assert PromptSampler(3, 0, False).next(7) == [0, 1, 2, 0, 1, 2, 0]


def test_epochs_and_seeds_give_different_orders():
    order = PromptSampler(100, 0, True).next(200)
    assert order[:100] != order[100:]
    assert order[:100] != PromptSampler(100, 1, True).next(100)


@pytest.mark.parametrize("other", [(9, 0, True), (10, 1, True), (10, 0, False)])
def test_a_state_of_another_order_is_refused_and_changes_nothing(other):
    sampler = PromptSampler(*other)
    with pytest.raises(InputError, match=r"changed since the checkpoint"):
        sampler.restore(PromptSampler(10, 0, True).state())
    assert sampler.next(5) == PromptSampler(*other).next(5)


def test_no_prompts_is_an_error():
    with pytest.raises(InputError, match=r"no prompts"):
        PromptSampler(0, 0, True)
