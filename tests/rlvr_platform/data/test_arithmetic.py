import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_platform.data.arithmetic import (
    ALPHABET,
    FAMILIES,
    distinct_tasks,
    draw_tasks,
    split_of,
)
from rlvr_platform.errors import ConfigError, InputError

ALL = tuple(FAMILIES)


@given(st.integers(0, 2**31), st.sampled_from(["train", "test"]))
@settings(max_examples=20, deadline=None)
def test_gold_is_the_value_of_the_expression(seed, split):
    for task in distinct_tasks(ALL, 50, seed, split):
        expression = task.text.removesuffix("=")
        assert re.fullmatch(r"\d+([-+*]\d+)+", expression)
        assert task.gold == str(eval(re.sub(r"\d+", lambda n: str(int(n[0])), expression)))


def test_train_and_test_share_no_prompt_whatever_the_seeds():
    train = {t.text for seed in range(3) for t in distinct_tasks(ALL, 1500, seed, "train")}
    test = {t.text for seed in range(3) for t in distinct_tasks(ALL, 1500, seed, "test")}
    assert not train & test


def test_both_halves_are_about_equal():
    texts = {t.text for t in distinct_tasks(("chain",), 2000, 0, "train")}
    assert all(split_of(text) == "train" for text in texts)
    pairs = [f"{a}+{b}=" for a in range(100) for b in range(100)]
    assert 0.45 < sum(split_of(p) == "train" for p in pairs) / len(pairs) < 0.55


def test_same_arguments_give_the_same_tasks_and_other_seeds_others():
    assert distinct_tasks(ALL, 200, 7, "train") == distinct_tasks(ALL, 200, 7, "train")
    assert distinct_tasks(ALL, 200, 7, "train") != distinct_tasks(ALL, 200, 8, "train")


def test_prompts_are_distinct_and_a_larger_count_continues_a_smaller_one():
    many = distinct_tasks(ALL, 3000, 0, "train")
    assert len({t.text for t in many}) == 3000
    assert many[:500] == distinct_tasks(ALL, 500, 0, "train")


def test_every_level_of_every_family_occurs():
    origins = {t.origin for t in itertools.islice(draw_tasks(ALL, 0, "train"), 2000)}
    assert origins == {
        f"{family} level {n}"
        for family, levels in FAMILIES.items()
        for n in range(1, len(levels) + 1)
    }


def test_only_the_alphabet_is_used():
    tasks = distinct_tasks(ALL, 2000, 0, "test")
    assert {c for t in tasks for c in t.text + t.gold} <= set(ALPHABET)


def test_asking_for_more_than_there_is_names_the_number_there_is():
    with pytest.raises(InputError, match=r"have about \d+ distinct train prompts") as caught:
        distinct_tasks(("mul",), 1_000_000, 0, "train")
    there = int(re.search(r"about (\d+)", str(caught.value))[1])
    assert len(distinct_tasks(("mul",), there, 0, "train")) == there


def test_unknown_family_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"division(.|\n)*add, sub, mul, chain"):
        distinct_tasks(("add", "division"), 10, 0, "train")
