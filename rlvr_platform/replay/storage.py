"""Graded groups on disk, for the checkpoint of a replay buffer: columns of numbers, lines of text.

Nothing in these files is code: a checkpoint that somebody else wrote can be opened safely.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rlvr_platform.errors import InputError
from rlvr_platform.files import NPZ_ERRORS
from rlvr_platform.types import (
    GradedGroup,
    Outcome,
    Prompt,
    RolloutGroup,
    Ticket,
    Verdict,
    summarise,
)

STATE_FILE = "experience.npz"
COLUMNS_FILE = "groups.npz"
LINES_FILE = "groups.jsonl"

_BY_TOKEN = ("tokens", "loss_mask", "logprobs", "versions")
_BY_SIBLING = ("finish",)


def save_experience(
    folder: Path,
    state: Mapping[str, np.ndarray],
    graded: Sequence[GradedGroup],
    groups: Sequence[RolloutGroup],
) -> None:
    """Write what `ExperienceReplay.state` returned, and the groups behind its handles."""
    np.savez(folder / STATE_FILE, allow_pickle=False, **state)
    write_groups(folder, graded, groups)


def load_experience(
    folder: Path,
) -> tuple[dict[str, np.ndarray], list[tuple[GradedGroup, RolloutGroup]]]:
    """What `save_experience` wrote. Raises InputError when it cannot be read."""
    with _readable(folder), np.load(folder / STATE_FILE, allow_pickle=False) as state:
        restored = read_groups(folder)
        group_ids = [group.ticket.group_id for _, group in restored]
        if state["groups.group_id"].tolist() != group_ids:
            raise ValueError(f"{STATE_FILE} and {COLUMNS_FILE} hold different groups")
        return dict(state), restored


def write_groups(
    folder: Path, graded: Sequence[GradedGroup], groups: Sequence[RolloutGroup]
) -> None:
    """Write groups, with their verdicts, into an existing folder."""
    columns = {
        name: np.concatenate([getattr(group, name) for group in groups])
        for name in (*_BY_TOKEN, *_BY_SIBLING)
        if groups
    }
    columns["lengths"] = _join([np.diff(group.offsets) for group in groups])
    columns["sizes"] = np.array([group.size for group in groups], np.int64)
    columns["prompt_tokens"] = _join([group.ticket.prompt.tokens for group in groups])
    columns["prompt_lengths"] = np.array([len(g.ticket.prompt.tokens) for g in groups], np.int64)
    np.savez(folder / COLUMNS_FILE, **columns)
    with (folder / LINES_FILE).open("w", encoding="utf-8") as lines:
        for judged, group in zip(graded, groups, strict=True):
            lines.write(json.dumps(_line(judged, group)) + "\n")


def read_groups(folder: Path) -> list[tuple[GradedGroup, RolloutGroup]]:
    """What `write_groups` wrote; each graded group's handle is the group itself.

    Raises InputError when the files are missing or do not fit each other.
    """
    with _readable(folder):
        with (folder / LINES_FILE).open(encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        with np.load(folder / COLUMNS_FILE, allow_pickle=False) as columns:
            return _groups(lines, dict(columns))


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Turn whatever damaged files raise into an InputError."""
    try:
        yield
    except (*NPZ_ERRORS, KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"cannot read the replay buffer in {folder}: {error}",
            "the buffer of an undamaged checkpoint",
            "remove that checkpoint, so that the run resumes from an older one",
        ) from None


def _line(judged: GradedGroup, group: RolloutGroup) -> dict[str, Any]:
    ticket, prompt = group.ticket, group.ticket.prompt
    return {
        "ticket": [ticket.group_id, ticket.step, ticket.n, ticket.seed],
        "prompt": [prompt.index, prompt.text, prompt.gold, prompt.source, prompt.origin],
        "options": dict(prompt.options),
        "texts": group.texts,
        "seconds": judged.summary.seconds,
        "verdicts": [asdict(verdict) for verdict in judged.verdicts],
    }


def _groups(
    lines: list[dict[str, Any]], columns: dict[str, np.ndarray]
) -> list[tuple[GradedGroup, RolloutGroup]]:
    siblings = _bounds(columns["sizes"])
    tokens = _bounds(columns["lengths"])[siblings]
    prompts = _bounds(columns["prompt_lengths"])
    if len(lines) != len(columns["sizes"]):
        raise ValueError(f"{len(lines)} lines for {len(columns['sizes'])} groups")
    restored: list[tuple[GradedGroup, RolloutGroup]] = []
    for i, line in enumerate(lines):
        own, rows = slice(tokens[i], tokens[i + 1]), slice(siblings[i], siblings[i + 1])
        prompt = columns["prompt_tokens"][prompts[i] : prompts[i + 1]]
        group = RolloutGroup(
            ticket=_ticket(line, prompt),
            offsets=_bounds(columns["lengths"][rows]),
            texts=tuple(line["texts"]),
            **{name: columns[name][own] for name in _BY_TOKEN},
            **{name: columns[name][rows] for name in _BY_SIBLING},
        )
        verdicts = tuple(
            Verdict(**{**verdict, "outcome": Outcome(verdict["outcome"])})
            for verdict in line["verdicts"]
        )
        if not len(verdicts) == len(group.texts) == group.size:
            raise ValueError(f"line {i + 1} of {LINES_FILE} is not of a group of {group.size}")
        restored.append((GradedGroup(summarise(group, line["seconds"]), verdicts, group), group))
    return restored


def _ticket(line: dict[str, Any], prompt_tokens: np.ndarray) -> Ticket:
    group_id, step, n, seed = line["ticket"]
    index, text, gold, source, origin = line["prompt"]
    prompt = Prompt(index, text, prompt_tokens, gold, source, line["options"], origin)
    return Ticket(group_id, step, prompt, n, seed)


def _bounds(lengths: np.ndarray) -> np.ndarray:
    """int64 [N+1] offsets of parts with these lengths, laid end to end."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _join(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([*parts, np.empty(0, np.int32)]).astype(np.int32)
