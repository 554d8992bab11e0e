"""Replay of single rollouts by |advantage|, bounded in age (arXiv 2606.04560).

The order of a step is the caller's: evict, draw, train, insert the fresh rollouts. A rollout is
therefore never drawn in the step that generated it. Groups are held by opaque handles; a handle
is let go of when the last rollout of its group leaves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rlvr_platform.config.replay import PrioritisedReuse
from rlvr_platform.errors import InputError
from rlvr_platform.replay.records import DTYPES, Draw, Evicted, Experience
from rlvr_platform.replay.sum_tree import SumTree
from rlvr_platform.types import GradedGroup

PRIORITY_EPS = 1e-6
"""Added to every priority, so that no stored rollout has probability zero."""

_STREAM = 0x5265706C
"""Keeps the draws apart from other random numbers made from the run's seed and a step."""


def priority_weights(kind: str, advantages: np.ndarray, group_std: float) -> np.ndarray:
    """float64 [K]: what the rollouts of one group are drawn by, before the exponent alpha.

    kind: a value of `PrioritisedReuse.priority`. advantages: float [K], of the group's valid
    siblings before any down-sampling. group_std: standard deviation of their rewards.
    """
    if kind == "advantage":
        return np.abs(advantages, dtype=np.float64)
    if kind == "group_std":
        return np.full(len(advantages), group_std, np.float64)
    if kind == "uniform":
        return np.ones(len(advantages))
    raise ValueError(f"unknown priority {kind!r}")


@dataclass(slots=True)
class _Group:
    handle: Any
    nbytes: int
    prompt_index: int
    rollouts: int
    """Those still stored."""


class ExperienceReplay:
    """Stored rollouts, drawn in proportion to (priority + 1e-6) ** alpha.

    A draw is successive sampling without replacement: each pick is proportional to its weight
    among the rollouts not yet picked. It consumes nothing, and is a function of the contents in
    their order of insertion, the seed and the step alone.
    """

    def __init__(self, config: PrioritisedReuse, seed: int) -> None:
        self._config = config
        self._seed = seed
        self._rows = Experience.empty(1024)
        self._used = 0
        # Leaf i is the weight of row i; zero: the rollout left. Rows from _weighed on follow late.
        self._tree = SumTree()
        self._weighed = 0
        self._groups: dict[int, _Group] = {}
        self._rollouts = 0
        self._nbytes = 0
        self._evicted = Evicted()

    @property
    def rollouts(self) -> int:
        """Rollouts stored."""
        return self._rollouts

    @property
    def groups(self) -> int:
        """Groups held for them."""
        return len(self._groups)

    @property
    def nbytes(self) -> int:
        """Memory of the groups held. Bytes."""
        return self._nbytes

    def insert(
        self,
        handle: Any,
        nbytes: int,
        group_id: int,
        prompt_index: int,
        siblings: np.ndarray,
        advantages: np.ndarray,
        priorities: np.ndarray,
        births: np.ndarray,
        lengths: np.ndarray,
        trained_tokens: np.ndarray,
    ) -> None:
        """Store rollouts of one group; arrays have shape [K], see `Experience` for their meaning.

        Call it after the step's draw. The bounds hold after the next `evict`.
        Raises ValueError when a number is not finite, a priority is negative, all advantages are
        zero (nothing to learn from), or the group is already here.
        """
        rows = Experience(
            group_id=np.full(len(siblings), group_id, np.int64),
            sibling=siblings,
            advantage=advantages,
            priority=priorities,
            birth=births,
            length=lengths,
            trained_tokens=trained_tokens,
        )
        if group_id in self._groups:
            raise ValueError(f"group {group_id} is already stored")
        rows.check()
        self._append(rows)
        self._groups[group_id] = _Group(handle, nbytes, prompt_index, len(rows))
        self._rollouts += len(rows)
        self._nbytes += nbytes

    def keep(self, group: GradedGroup, advantages: np.ndarray, priorities: np.ndarray) -> None:
        """Store those rollouts of `group` that have a priority; both arrays are float [G].

        NaN marks a rollout that is not stored. A group that has nothing to teach is passed over.
        """
        siblings = np.flatnonzero(~np.isnan(priorities))
        if not advantages[siblings].any():
            return
        summary = group.summary
        self.insert(
            handle=group,
            nbytes=summary.nbytes,
            group_id=summary.group_id,
            prompt_index=summary.prompt_index,
            siblings=siblings.astype(np.int32),
            advantages=advantages[siblings].astype(np.float32),
            priorities=priorities[siblings],
            births=summary.first_version[siblings],
            lengths=summary.prompt_tokens + summary.lengths[siblings],
            trained_tokens=summary.trained_tokens[siblings],
        )

    def evict(self, version: int) -> Evicted:
        """Let go of what is too old at weight version `version`, then of what exceeds the bounds.

        A rollout whose age is exactly max_age stays. Bounds take the oldest birth first, and of
        one birth the first inserted.
        """
        self._evicted = Evicted(
            age=self._remove(self._too_old(version)),
            capacity=self._remove(self._above_capacity()),
            memory=self._remove(self._above_memory()),
        )
        self._compact()
        return self._evicted

    def draw(self, step: int, version: int, count: int) -> Draw:
        """Up to `count` different rollouts for the update of weights `version`.

        Empty before start_step and when nothing is stored. Raises ValueError when a rollout's
        age lies outside [0, max_age]: `evict(version)` comes first.
        """
        wanted = min(count, self._rollouts) if step >= self._config.start_step else 0
        weights = self._weights()
        rng = np.random.default_rng((self._seed, step, _STREAM))
        index = self._tree.sample(wanted, rng)
        drawn = self._rows.take(index)
        group_ids, group = np.unique(drawn.group_id, return_inverse=True)
        return Draw(
            handles=tuple(self._groups[group_id].handle for group_id in group_ids.tolist()),
            group_ids=group_ids,
            group=group.astype(np.int32),
            sibling=drawn.sibling,
            advantage=drawn.advantage,
            length=drawn.length,
            trained_tokens=drawn.trained_tokens,
            ages=self._ages(drawn, version),
            probability=weights[index] / self._tree.total if wanted else np.empty(0),
        )

    def describe(self, version: int, top: int = 10) -> dict[str, Any]:
        """What is stored at weight version `version`, what left last, what a draw would take.

        JSON types only. `most_likely` lists the `top` rollouts by P(i) with what P(i) comes from.
        """
        live = self._live()
        stored = self._rows.take(live)
        ages, counts = np.unique(version - stored.birth.astype(np.int64), return_counts=True)
        quantiles = np.quantile(stored.priority, _QUANTILES) if len(live) else ()
        return {
            "rollouts": self.rollouts,
            "groups": self.groups,
            "bytes": self.nbytes,
            "ages": dict(zip(map(str, ages.tolist()), counts.tolist(), strict=True)),
            "priority_quantiles": {
                str(q): float(value) for q, value in zip(_QUANTILES, quantiles, strict=False)
            },
            "last_evicted": {f.name: getattr(self._evicted, f.name) for f in fields(Evicted)},
            "draws_from_step": self._config.start_step,
            "drawn_by": f"({self._config.priority} + {PRIORITY_EPS:g}) ** {self._config.alpha:g}, "
            "one after the other, none twice in a draw",
            "most_likely": self._most_likely(live, version, top),
        }

    def state(self) -> tuple[dict[str, np.ndarray], list[Any]]:
        """Everything `restore` needs: arrays, and the handles in the order of `groups.group_id`.

        The caller writes the groups behind the handles and hands over new ones on restore.
        """
        arrays = {f"rows.{name}": getattr(self._rows, name)[: self._used] for name in DTYPES}
        arrays["rows.weight"] = self._weights()
        arrays["groups.group_id"] = np.array(list(self._groups), np.int64)
        for name in ("nbytes", "prompt_index"):
            values = [getattr(group, name) for group in self._groups.values()]
            arrays[f"groups.{name}"] = np.array(values, np.int64)
        arrays["settings"] = np.frombuffer(json.dumps(self._settings()).encode(), np.uint8)
        handles = [group.handle for group in self._groups.values()]
        return {name: array.copy() for name, array in arrays.items()}, handles

    def restore(self, arrays: Mapping[str, np.ndarray], handles: Sequence[Any]) -> None:
        """Become what `state` described: later draws are the same, bit for bit.

        Raises InputError for a state of another configuration or seed, and for a damaged one.
        """
        _check_state(arrays, handles)
        self._check_settings(json.loads(arrays["settings"].tobytes()))
        weights = arrays["rows.weight"]
        live = weights > 0
        group_ids, counts = np.unique(arrays["rows.group_id"][live], return_counts=True)
        rollouts = dict(zip(group_ids.tolist(), counts.tolist(), strict=True))
        columns = (arrays[f"groups.{name}"].tolist() for name in _GROUP_COLUMNS)
        self._groups = {
            group_id: _Group(handle, nbytes, prompt_index, rollouts[group_id])
            for handle, group_id, nbytes, prompt_index in zip(handles, *columns, strict=True)
        }
        self._rollouts = int(live.sum())
        self._nbytes = int(arrays["groups.nbytes"].sum())
        stored = Experience(**{name: arrays[f"rows.{name}"] for name in DTYPES})
        self._replace(stored, weights)

    def _append(self, rows: Experience) -> None:
        end = self._used + len(rows)
        if end > len(self._rows):
            larger = Experience.empty(max(end, 2 * len(self._rows)))
            larger.write(0, self._rows.take(slice(self._used)))
            self._rows = larger
        self._rows.write(self._used, rows)
        self._used = end

    def _weights(self) -> np.ndarray:
        """float64 [used]: the weight of every row, zero where the rollout left."""
        if self._weighed < self._used:
            priority = self._rows.priority[self._weighed : self._used]
            new = np.arange(self._weighed, self._used)
            self._tree.set(new, (priority + PRIORITY_EPS) ** self._config.alpha)
            self._weighed = self._used
        return self._tree.weights(self._used)

    def _live(self) -> np.ndarray:
        """int64 [rollouts]: rows whose rollout is stored."""
        return np.flatnonzero(self._weights() > 0)

    def _oldest_first(self) -> np.ndarray:
        live = self._live()
        return live[np.argsort(self._rows.birth[live], kind="stable")]

    def _too_old(self, version: int) -> np.ndarray:
        if self._config.max_age is None:
            return np.empty(0, np.int64)
        too_old = self._rows.birth[: self._used] < version - self._config.max_age
        return np.flatnonzero(too_old & (self._weights() > 0))

    def _above_capacity(self) -> np.ndarray:
        excess = self._rollouts - self._config.capacity_rollouts
        return self._oldest_first()[:excess] if excess > 0 else np.empty(0, np.int64)

    def _above_memory(self) -> np.ndarray:
        """The fewest of the oldest rows without which enough groups are empty."""
        excess = self._nbytes - self._config.max_gib * 2**30
        if excess <= 0:
            return np.empty(0, np.int64)
        order = self._oldest_first()
        # A group's memory comes free with its last row; unique finds the first of a reversal.
        group_ids, from_end = np.unique(self._rows.group_id[order][::-1], return_index=True)
        rows_needed = len(order) - from_end
        nbytes = np.array([self._groups[group_id].nbytes for group_id in group_ids.tolist()])
        by_need = np.argsort(rows_needed)
        freed = np.cumsum(nbytes[by_need])
        return order[: rows_needed[by_need][np.searchsorted(freed, excess)]]

    def _remove(self, index: np.ndarray) -> int:
        self._tree.set(index, np.zeros(len(index)))
        group_ids, counts = np.unique(self._rows.group_id[index], return_counts=True)
        for group_id, count in zip(group_ids.tolist(), counts.tolist(), strict=True):
            group = self._groups[group_id]
            group.rollouts -= count
            if not group.rollouts:
                self._nbytes -= self._groups.pop(group_id).nbytes
        self._rollouts -= len(index)
        return len(index)

    def _compact(self) -> None:
        """Close the gaps once they are half of the rows: constant time a rollout on average."""
        if 2 * self._rollouts < self._used:
            live = self._live()
            self._replace(self._rows.take(live), self._weights()[live])

    def _replace(self, rows: Experience, weights: np.ndarray) -> None:
        self._rows = Experience.empty(max(len(rows), 1024))
        self._rows.write(0, rows)
        self._tree = SumTree(len(rows))
        self._tree.set(np.arange(len(rows)), weights)
        self._used = self._weighed = len(rows)

    def _ages(self, rows: Experience, version: int) -> np.ndarray:
        ages = version - rows.birth.astype(np.int64)
        limit = self._config.max_age
        if len(ages) and (ages.min() < 0 or (limit is not None and ages.max() > limit)):
            raise ValueError(
                f"drawn ages reach from {ages.min()} to {ages.max()} at version {version}, "
                f"max_age is {limit}: evict(version) comes before draw"
            )
        return ages

    def _most_likely(self, live: np.ndarray, version: int, top: int) -> list[dict[str, Any]]:
        weights = self._weights()
        best = live[np.argsort(-weights[live], kind="stable")[:top]]
        rows = self._rows.take(best)
        return [
            {
                "group_id": group_id,
                "prompt_index": self._groups[group_id].prompt_index,
                "sibling": int(rows.sibling[i]),
                "age": int(version - rows.birth[i]),
                "advantage": float(rows.advantage[i]),
                "priority": float(rows.priority[i]),
                "probability": float(weights[best[i]] / self._tree.total),
            }
            for i, group_id in enumerate(rows.group_id.tolist())
        ]

    def _settings(self) -> dict[str, Any]:
        return {"seed": self._seed, **self._config.model_dump(mode="json")}

    def _check_settings(self, saved: dict[str, Any]) -> None:
        own = self._settings()
        names = [n for n in {**own, **saved} if own.get(n) != saved.get(n)]
        if names:
            listed = ", ".join(f"{n}={saved.get(n)} (now {own.get(n)})" for n in names)
            raise InputError(
                f"the saved replay buffer belongs to another configuration: {listed}",
                "the same replay.reuse settings and seed",
                "resume with the run's own configuration, or start a new run",
            )


_QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)
_GROUP_COLUMNS = ("group_id", "nbytes", "prompt_index")


def _check_state(arrays: Mapping[str, np.ndarray], handles: Sequence[Any]) -> None:
    """Raises InputError when `arrays` is not what `ExperienceReplay.state` returns."""
    columns = {"rows": (*DTYPES, "weight"), "groups": _GROUP_COLUMNS}
    names = [f"{table}.{column}" for table in columns for column in columns[table]]
    missing = [name for name in (*names, "settings") if name not in arrays]
    problem = f"it lacks {', '.join(missing)}" if missing else ""
    if not missing:
        lengths = {t: {len(arrays[f"{t}.{c}"]) for c in columns[t]} for t in columns}
        held = arrays["rows.group_id"][arrays["rows.weight"] > 0]
        if lengths["groups"] != {len(handles)} or len(lengths["rows"]) != 1:
            problem = f"its columns have different lengths, beside {len(handles)} groups"
        elif set(held.tolist()) != set(arrays["groups.group_id"].tolist()):
            problem = "its rollouts belong to other groups than it holds"
    if problem:
        raise InputError(
            f"the saved replay buffer is damaged: {problem}",
            "what a checkpoint of this version wrote",
            "resume from an earlier checkpoint",
        )
