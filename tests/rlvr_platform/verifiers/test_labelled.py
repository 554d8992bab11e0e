import json
from dataclasses import asdict, dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.types import Outcome, Verdict
from rlvr_platform.verifiers.labelled import Comparison, Confusion, Counts, disagreement, percent
from rlvr_platform.verifiers.tasks import GradeItem

outcomes = st.sampled_from(list(Outcome))
labelled = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), outcomes), max_size=40)


@dataclass
class Case:
    id: int
    kind: str
    label: bool
    item: GradeItem


def verdict(outcome, seconds=0.1):
    return Verdict(outcome, None, "\ud800", "rule", seconds)


def confusion(rows):
    table = Confusion("math")
    for i, (kind, label, outcome) in enumerate(rows):
        table.add(Case(i, kind, label, GradeItem("p", "gold")), verdict(outcome, i / 10))
    return table


@pytest.mark.parametrize(
    ("label", "outcome", "kind"),
    [
        (True, Outcome.CORRECT, None),
        (True, Outcome.WRONG, "false_negative"),
        (True, Outcome.NO_ANSWER, "false_negative"),
        (False, Outcome.CORRECT, "false_positive"),
        (False, Outcome.WRONG, None),
        (False, Outcome.NO_ANSWER, None),
        (True, Outcome.TIMEOUT, "no_verdict"),
        (False, Outcome.ERROR, "no_verdict"),
    ],
)
def test_no_verdict_is_neither_a_false_positive_nor_a_false_negative(label, outcome, kind):
    assert disagreement(label, outcome) == kind


@given(labelled)
def test_every_row_is_counted_once_and_classes_add_up(rows):
    table = confusion(rows)
    document = table.as_dict()
    assert sum(asdict(table.total()).values()) == document["total"]["rows"] == len(rows)
    for name, value in asdict(table.total()).items():
        assert value == sum(part[name] for part in document["classes"].values())
    wanted = [i for i, (_, label, found) in enumerate(rows) if disagreement(label, found)]
    assert [case["id"] for case in document["disagreements"]] == wanted
    assert document["slowest_s"] == max([i / 10 for i in range(len(rows))], default=0)


@given(labelled)
def test_rates_are_shares_of_their_own_rows(rows):
    rates = confusion(rows).total().rates()
    positives = [found for _, label, found in rows if label]
    negatives = [found for _, label, found in rows if not label]
    rejected = sum(found in (Outcome.WRONG, Outcome.NO_ANSWER) for found in positives)
    accepted = negatives.count(Outcome.CORRECT)
    missed = len(positives) - positives.count(Outcome.CORRECT)
    for name, part, whole in (
        ("false_negative_rate", rejected, len(positives)),
        ("false_positive_rate", accepted, len(negatives)),
        ("error_rate", missed + accepted, len(rows)),
    ):
        assert rates[name] == (part / whole if whole else None)


def test_the_text_of_a_table_is_aligned_and_safe_to_print():
    table = confusion([("a long class", True, Outcome.WRONG), ("b", False, Outcome.WRONG)])
    head, first, second, total, slowest, case = table.lines()
    assert [head.split()[0], first.split()[-1], second.split()[0]] == ["math", "100.00%", "b"]
    assert len(head) == len(first) == len(total)
    assert slowest == "slowest verdict: 0.100 s"
    assert json.loads(case)["extracted"] == "\ud800"
    assert case.isascii()


@given(st.lists(st.tuples(outcomes, outcomes), max_size=40))
def test_a_comparison_lists_what_differs_and_counts_everything(pairs):
    comparison = Comparison("a", "b")
    for i, (first, second) in enumerate(pairs):
        comparison.add(i, "gold", verdict(first), verdict(second))
    document = comparison.as_dict()
    wanted = [i for i, (first, second) in enumerate(pairs) if first != second]
    assert [case["id"] for case in document["disagreements"]] == wanted
    assert document["disagreement_rate"] == (len(wanted) / len(pairs) if pairs else None)
    counted = {a: {b: n for b, n in row.items() if n} for a, row in document["counts"].items()}
    for first, second in set(pairs):
        assert counted[first][second] == pairs.count((first, second))
    assert sum(sum(row.values()) for row in counted.values()) == len(pairs)
    assert len(list(comparison.lines())) == 7 + len(wanted)


def test_no_rows_have_no_rates():
    assert set(Counts().rates().values()) == {None}
    assert percent(None) == "-"
