"""Procedural arithmetic: seeded, endless in practice, graded from easy to hard."""

from __future__ import annotations

import hashlib
import operator
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rlvr_platform.data.records import Record
from rlvr_platform.errors import ConfigError, InputError

Split = Literal["train", "test"]

_APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_PATIENCE = 400
"""Draws without a new task after which a level counts as used up."""


@dataclass(frozen=True, slots=True)
class Level:
    """One difficulty: operands below these limits, joined by any of the operators."""

    operators: str
    limits: tuple[int, ...]

    def draw(self, rng: random.Random) -> tuple[str, str]:
        """A task and its answer, e.g. `("17+25=", "42")`; evaluated from left to right."""
        value = rng.randrange(self.limits[0])
        text = str(value)
        for limit in self.limits[1:]:
            symbol, operand = rng.choice(self.operators), rng.randrange(limit)
            text, value = f"{text}{symbol}{operand}", _APPLY[symbol](value, operand)
        return f"{text}=", str(value)


FAMILIES: dict[str, tuple[Level, ...]] = {
    "add": (Level("+", (100, 10)), Level("+", (100, 100)), Level("+", (1000, 100))),
    "sub": (Level("-", (100, 10)), Level("-", (100, 100)), Level("-", (1000, 100))),
    "mul": (Level("*", (100, 4)), Level("*", (100, 10))),
    "chain": (Level("+-", (10, 10, 10)), Level("+-", (10, 10, 10, 10))),
}
"""Family to its levels, easiest first."""

ALPHABET = "0123456789+-*="
"""Every character that occurs in a task or its answer."""


def split_of(text: str) -> Split:
    """The half of the task space that `text` belongs to, whatever the seed."""
    return "test" if hashlib.blake2b(text.encode(), digest_size=1).digest()[0] & 1 else "train"


def draw_tasks(families: Sequence[str], seed: int, split: Split) -> Iterator[Record]:
    """Endless tasks of one half: levels in even shares, repeats allowed."""
    rng, levels = random.Random(f"tasks {seed}"), _levels(families)
    while True:
        name = rng.choice(list(levels))
        text, gold = levels[name].draw(rng)
        if split_of(text) == split:
            yield Record(text, gold, name)


def distinct_tasks(families: Sequence[str], count: int, seed: int, split: Split) -> list[Record]:
    """`count` different tasks of one half, levels in even shares until one is used up.

    A larger count continues a smaller one. Raises InputError when the levels hold too few.
    """
    rng, levels = random.Random(f"tasks {seed}"), _levels(families)
    records: dict[str, Record] = {}
    misses = dict.fromkeys(levels, 0)
    while len(records) < count and levels:
        name = rng.choice(list(levels))
        text, gold = levels[name].draw(rng)
        if split_of(text) == split and text not in records:
            records[text] = Record(text, gold, name)
            misses[name] = 0
            continue
        misses[name] += 1
        if misses[name] > _PATIENCE:
            del levels[name]
    if len(records) < count:
        raise InputError(
            f"the families {', '.join(families)} have about {len(records)} distinct "
            f"{split} prompts",
            f"{count} prompts",
            f"set count to at most {len(records)}, or add families ({', '.join(FAMILIES)})",
        )
    return list(records.values())


def _levels(families: Sequence[str]) -> dict[str, Level]:
    unknown = [family for family in families if family not in FAMILIES]
    if unknown:
        raise ConfigError(f"unknown arithmetic families: {', '.join(unknown)}", ", ".join(FAMILIES))
    return {
        f"{family} level {number}": level
        for family in dict.fromkeys(families)
        for number, level in enumerate(FAMILIES[family], start=1)
    }
