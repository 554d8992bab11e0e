"""How far verdicts agree: with labels, by class of case, and with another verifier's verdicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from rlvr_platform.types import Outcome, Verdict
from rlvr_platform.verifiers.tasks import GradeItem

Disagreement = Literal["false_positive", "false_negative", "no_verdict"]
_LONGEST = 200
"""Characters of a text in a list of disagreements."""
_UNDECIDED = (Outcome.TIMEOUT, Outcome.ERROR)


def disagreement(label: bool, outcome: Outcome) -> Disagreement | None:
    """How a verdict departs from its label. A timeout or error is no verdict, never a wrong one."""
    if outcome in _UNDECIDED:
        return "no_verdict"
    if (outcome is Outcome.CORRECT) == label:
        return None
    return "false_negative" if label else "false_positive"


@dataclass(slots=True)
class Counts:
    """Labelled rows by what was found."""

    true_positives: int = 0
    false_negatives: int = 0
    undecided_correct: int = 0
    """Correct completions without a verdict."""
    true_negatives: int = 0
    false_positives: int = 0
    undecided_wrong: int = 0
    """Wrong completions without a verdict: they earn no reward, as they should."""

    def add(self, label: bool, outcome: Outcome) -> None:
        """Count one row."""
        if outcome in _UNDECIDED:
            name = "undecided_correct" if label else "undecided_wrong"
        else:
            right = (outcome is Outcome.CORRECT) == label
            name = (
                f"{'true' if right else 'false'}_{'positives' if label == right else 'negatives'}"
            )
        setattr(self, name, getattr(self, name) + 1)

    def __add__(self, other: Counts) -> Counts:
        mine, theirs = asdict(self), asdict(other)
        return Counts(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def correct(self) -> int:
        """Rows labelled correct."""
        return self.true_positives + self.false_negatives + self.undecided_correct

    @property
    def wrong(self) -> int:
        """Rows labelled wrong."""
        return self.true_negatives + self.false_positives + self.undecided_wrong

    def rates(self) -> dict[str, float | None]:
        """Shares: errors of all rows, and each kind of its own rows; None without any.

        A correct completion without a verdict is an error; a wrong one is not.
        """
        errors = self.false_positives + self.false_negatives + self.undecided_correct
        return {
            "error_rate": _share(errors, self.correct + self.wrong),
            "false_positive_rate": _share(self.false_positives, self.wrong),
            "false_negative_rate": _share(self.false_negatives, self.correct),
        }


class Labelled(Protocol):
    """A row whose verdict is known."""

    @property
    def id(self) -> Any: ...

    @property
    def label(self) -> bool: ...

    @property
    def kind(self) -> str: ...

    @property
    def item(self) -> GradeItem: ...


class Confusion:
    """One verifier's verdicts against labels, by class of case."""

    def __init__(self, verifier: str) -> None:
        self.verifier = verifier
        self.classes: dict[str, Counts] = {}
        self.slowest_s = 0.0
        self.disagreements: list[dict[str, Any]] = []

    def add(self, row: Labelled, verdict: Verdict) -> None:
        """Count one row, and list it when its verdict departs from its label."""
        self.classes.setdefault(row.kind, Counts()).add(row.label, verdict.outcome)
        self.slowest_s = max(self.slowest_s, verdict.seconds)
        if how := disagreement(row.label, verdict.outcome):
            case = {"id": row.id, "class": row.kind, "expected": row.label, "disagreement": how}
            self.disagreements.append(case | {"gold": row.item.gold[:_LONGEST]} | found(verdict))

    def total(self) -> Counts:
        """Over all classes."""
        return sum(self.classes.values(), Counts())

    def as_dict(self) -> dict[str, Any]:
        """Counts and rates in total and by class, and the disagreements."""
        classes = {name: _described(self.classes[name]) for name in sorted(self.classes)}
        return {
            "verifier": self.verifier,
            "total": _described(self.total()),
            "classes": classes,
            "slowest_s": self.slowest_s,
            "disagreements": self.disagreements,
        }

    def lines(self) -> Iterator[str]:
        """The table as text, a line a class, then a JSON line for each disagreement."""
        named = [*sorted(self.classes.items()), ("total", self.total())]
        titles = (self.verifier, "rows", "TP", "FN", "TN", "FP", "no verdict")
        rates = ("error", "FP rate", "FN rate")
        rows = [_cells(printable(name), counts) for name, counts in named]
        yield from _aligned([titles + rates, *rows])
        yield f"slowest verdict: {self.slowest_s:.3f} s"
        yield from map(json.dumps, self.disagreements)


class Comparison:
    """Two verdicts for each of many rows."""

    def __init__(self, first: str, second: str) -> None:
        self.names = (first, second)
        self.counts: Counter[tuple[Outcome, Outcome]] = Counter()
        self.disagreements: list[dict[str, Any]] = []

    def add(self, identity: Any, gold: str, first: Verdict, second: Verdict) -> None:
        """Count one row, and list it when the outcomes differ."""
        self.counts[first.outcome, second.outcome] += 1
        if first.outcome is not second.outcome:
            case = {"id": identity, "gold": gold[:_LONGEST]}
            self.disagreements.append(case | {"first": found(first), "second": found(second)})

    def as_dict(self) -> dict[str, Any]:
        """Rows, the share that differs, {first: {second: rows}}, and the disagreements."""
        rows = self.counts.total()
        return {
            "first": self.names[0],
            "second": self.names[1],
            "rows": rows,
            "disagreement_rate": _share(len(self.disagreements), rows),
            "counts": {a.value: {b.value: self.counts[a, b] for b in Outcome} for a in Outcome},
            "disagreements": self.disagreements,
        }

    def lines(self) -> Iterator[str]:
        """First outcomes down, second ones across; then a JSON line for each disagreement."""
        rows, differing = self.counts.total(), len(self.disagreements)
        rate = percent(_share(differing, rows))
        yield f"{self.names[0]} against {self.names[1]}: {differing} of {rows} differ ({rate})"
        titles = (f"{self.names[0]} \\ {self.names[1]}", *(b.value for b in Outcome))
        body = [(a.value, *(str(self.counts[a, b]) for b in Outcome)) for a in Outcome]
        yield from _aligned([titles, *body])
        yield from map(json.dumps, self.disagreements)


def found(verdict: Verdict) -> dict[str, Any]:
    """What a list of disagreements says of a verdict."""
    return {
        "verdict": verdict.outcome.value,
        "extracted": verdict.extracted[:_LONGEST],
        "rule": verdict.rule,
    }


def printable(text: str) -> str:
    """`text` without what a terminal would obey: a data file may be anybody's."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def percent(share: float | None) -> str:
    """A share for people; a dash where there are no rows."""
    return "-" if share is None else f"{share:.2%}"


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _described(counts: Counts) -> dict[str, Any]:
    return {"rows": counts.correct + counts.wrong, **asdict(counts), **counts.rates()}


def _cells(name: str, counts: Counts) -> tuple[str, ...]:
    found = (
        counts.correct + counts.wrong,
        counts.true_positives,
        counts.false_negatives,
        counts.true_negatives,
        counts.false_positives,
        counts.undecided_correct + counts.undecided_wrong,
    )
    return (name, *map(str, found), *map(percent, counts.rates().values()))


def _aligned(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """First column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *rest in table:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()
