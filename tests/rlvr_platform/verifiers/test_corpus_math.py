"""The release gate of the math verifier: error rates by class on a labelled corpus."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.math import MathEquivalence

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "corpus" / "math.jsonl").read_text().splitlines()
]
CLASSES = sorted({row["class"] for row in ROWS})
MAX_FALSE_POSITIVES = 0.0
MAX_FALSE_NEGATIVES = 0.05


@pytest.fixture(scope="module")
def errors():
    """Per class: the labels that were judged otherwise."""
    verifier = MathEquivalence()
    wrong = defaultdict(list)
    for row in ROWS:
        outcome = verifier.verify(row["prediction"], row["gold"], {}).outcome
        if (outcome is Outcome.CORRECT) != row["expected"]:
            wrong[row["class"]].append(row)
    return wrong


def test_the_corpus_has_both_labels_and_unique_ids():
    assert len({row["id"] for row in ROWS}) == len(ROWS) >= 300
    assert 0.4 < sum(row["expected"] for row in ROWS) / len(ROWS) < 0.7


@pytest.mark.parametrize("name", CLASSES)
def test_no_class_exceeds_its_error_rates(errors, name):
    rows = [row for row in ROWS if row["class"] == name]
    for label, limit in ((False, MAX_FALSE_POSITIVES), (True, MAX_FALSE_NEGATIVES)):
        count = sum(row["expected"] is label for row in rows)
        wrong = [row["id"] for row in errors[name] if row["expected"] is label]
        assert len(wrong) <= limit * count, wrong
