"""Rows laid out for one forward pass each, within a budget of tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlvr_platform.batching.rows import Rows
from rlvr_platform.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Inputs [b, t] of one forward pass and its N targets, ready for `torch.from_numpy`.

    Targets are made from the rows' own `trained` column, and nothing else says which tokens
    count. Position ids alone describe the layout: where they restart, another row begins.
    """

    tokens: np.ndarray
    """int64 [b, t]; 0 where padded, always right of the row, where causality hides it."""
    position_ids: np.ndarray
    """int64 [b, t]."""
    predict: np.ndarray
    """int64 [N], index into the flattened [b * t] of the token BEFORE the target."""
    targets: np.ndarray
    """int64 [N], token ids."""
    behaviour: np.ndarray
    """float32 [N], nats."""
    advantage: np.ndarray
    """float32 [N]."""
    weight: np.ndarray
    """float32 [N]; the loss is the sum of weight * token loss."""
    row: np.ndarray
    """int64 [N], index into the rows. A row's targets are all in one micro-batch."""
    segments: np.ndarray | None = None
    """int64 [b, t] when rows share a prompt: 0 on the prompt, k > 0 on its k-th row, -1 on
    padding; a token sees the prompt and its own row. None: position ids say it all."""


def empty() -> MicroBatch:
    """One dummy token and no target, for a rank that must keep collectives in step."""
    nothing, none = np.zeros(0, np.float32), np.zeros(0, np.int64)
    one = np.zeros((1, 1), np.int64)
    return MicroBatch(one, one, none, none, nothing, nothing, nothing, none)


def micro_batches(rows: Rows, layout: str, budget: int) -> list[MicroBatch]:
    """The layout that the configuration names: `padded`, `packed` or `shared_prompt`."""
    layouts = {"padded": padded, "packed": packed, "shared_prompt": shared_prompt}
    return layouts[layout](rows, budget)


def padded(rows: Rows, budget: int) -> list[MicroBatch]:
    """Rows of similar length side by side: b * t <= budget, padding included.

    Raises ConfigError when a row is longer than the budget.
    """
    batches = []
    for chosen in _similar_lengths(_checked_lengths(rows, budget), budget):
        height, width = len(chosen), int(rows.lengths[chosen[0]])
        positions = np.tile(np.arange(width), (height, 1))
        batches.append(_assemble(rows, chosen, np.arange(height) * width, positions))
    return batches


def packed(rows: Rows, budget: int) -> list[MicroBatch]:
    """Rows end to end in one sequence: b = 1, t <= budget.

    Raises ConfigError when a row is longer than the budget.
    """
    batches = []
    for chosen in _first_fit(_checked_lengths(rows, budget), budget):
        lengths = rows.lengths[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        positions = np.concatenate([np.arange(length) for length in lengths])[None]
        batches.append(_assemble(rows, chosen, starts, positions))
    return batches


def shared_prompt(rows: Rows, budget: int) -> list[MicroBatch]:
    """Rows of one group behind a single copy of their prompt: b * t <= budget.

    The gradient is that of `padded`, where every row brings its own copy; what it saves is the
    repeated prompt. A group beyond the budget is cut, each part with its prompt.
    Raises ConfigError when a row is longer than the budget.
    """
    _checked_lengths(rows, budget)
    trees = [tree for group in np.unique(rows.group) for tree in _trees(rows, group, budget)]
    lengths = np.array([_tree_length(rows, tree) for tree in trees], dtype=np.int64)
    return [
        _assemble_trees(rows, [trees[i] for i in chosen], int(lengths[chosen[0]]))
        for chosen in _similar_lengths(lengths, budget)
    ]


def _trees(rows: Rows, group: int, budget: int) -> Iterator[np.ndarray]:
    """The rows of a group in as few parts as the budget allows."""
    members = np.flatnonzero(rows.group == group)
    prompt = int(rows.prompt_length[members[0]])
    part: list[int] = []
    used = prompt
    for row in members.tolist():
        completion = int(rows.lengths[row]) - prompt
        if part and used + completion > budget:
            yield np.array(part)
            part, used = [], prompt
        part.append(row)
        used += completion
    yield np.array(part)


def _tree_length(rows: Rows, tree: np.ndarray) -> int:
    prompt = int(rows.prompt_length[tree[0]])
    return prompt + int((rows.lengths[tree] - prompt).sum())


def _assemble_trees(rows: Rows, trees: list[np.ndarray], width: int) -> MicroBatch:
    """One tree a line: the prompt, then the completions of its rows one after another."""
    shape = (len(trees), width)
    tokens, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    segments = np.full(shape, -1, np.int64)
    sources, predict, row = [], [], []
    for line, tree in enumerate(trees):
        prompt = int(rows.prompt_length[tree[0]])
        first = int(rows.offsets[tree[0]])
        tokens[line, :prompt] = rows.tokens[first : first + prompt]
        positions[line, :prompt] = np.arange(prompt)
        segments[line, :prompt] = 0
        start = prompt
        for k, index in enumerate(tree.tolist(), start=1):
            source = np.arange(rows.offsets[index] + prompt, rows.offsets[index + 1])
            end = start + len(source)
            tokens[line, start:end] = rows.tokens[source]
            positions[line, start:end] = prompt + np.arange(len(source))
            segments[line, start:end] = k
            # The prompt's last token predicts the first token of every completion.
            before = np.r_[prompt - 1, np.arange(start, end - 1)]
            trained = rows.trained[source]
            sources.append(source[trained])
            predict.append(line * width + before[trained])
            row.append(np.full(int(trained.sum()), index))
            start = end
    source, owner = np.concatenate(sources), np.concatenate(row)
    return MicroBatch(
        tokens=tokens,
        position_ids=positions,
        predict=np.concatenate(predict),
        targets=rows.tokens[source].astype(np.int64),
        behaviour=rows.behaviour[source],
        advantage=rows.advantage[owner],
        weight=rows.weight[owner],
        row=owner,
        segments=segments,
    )


def _checked_lengths(rows: Rows, budget: int) -> np.ndarray:
    longest = int(rows.lengths.max(initial=0))
    if longest > budget:
        raise ConfigError(
            f"a row of {longest} tokens does not fit learner.tokens_per_micro_batch={budget}",
            "a budget of at least data.max_prompt_tokens + rollout.max_new_tokens",
            f"set learner.tokens_per_micro_batch to {longest} or more",
        )
    return rows.lengths


def _longest_first(lengths: np.ndarray) -> np.ndarray:
    return np.argsort(-lengths, kind="stable")


def _similar_lengths(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Row indices of each padded micro-batch, longest first, so that padding stays small."""
    order = _longest_first(lengths)
    start = 0
    while start < len(order):
        height = budget // int(lengths[order[start]])
        height = _worthwhile(lengths[order[start : start + height]])
        yield order[start : start + height]
        start += height


def _worthwhile(lengths: np.ndarray) -> int:
    """How many of the rows, longest first, to pad to the first one's length.

    All, unless a second micro-batch for the short ones saves a third of what is computed: single
    replayed rows beside whole groups would be padding for the most part.
    """
    first = np.arange(1, len(lengths))
    cells = first * lengths[0] + (len(lengths) - first) * lengths[1:]
    if len(cells) and 3 * cells.min() <= 2 * len(lengths) * lengths[0]:
        return int(first[cells.argmin()])
    return len(lengths)


def _first_fit(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Row indices of each packed micro-batch, by first fit decreasing."""
    bins: list[list[int]] = []
    room: list[int] = []
    for row in _longest_first(lengths).tolist():
        length = int(lengths[row])
        index = next((i for i, free in enumerate(room) if free >= length), len(bins))
        if index == len(bins):
            bins.append([])
            room.append(budget)
        bins[index].append(row)
        room[index] -= length
    return [np.array(chosen) for chosen in bins]


def _assemble(
    rows: Rows, chosen: np.ndarray, starts: np.ndarray, positions: np.ndarray
) -> MicroBatch:
    """Copy the chosen rows so that row k begins at `starts[k]` of the flattened layout."""
    lengths = rows.lengths[chosen]
    within = np.concatenate([np.arange(length) for length in lengths])
    source = np.repeat(rows.offsets[chosen], lengths) + within
    target = np.repeat(starts, lengths) + within
    row = np.repeat(chosen, lengths)
    tokens = np.zeros(positions.size, np.int64)
    tokens[target] = rows.tokens[source]
    trained = rows.trained[source]
    source, target, row = source[trained], target[trained], row[trained]
    return MicroBatch(
        tokens=tokens.reshape(positions.shape),
        position_ids=positions,
        predict=target - 1,
        targets=rows.tokens[source].astype(np.int64),
        behaviour=rows.behaviour[source],
        advantage=rows.advantage[row],
        weight=rows.weight[row],
        row=row,
    )
