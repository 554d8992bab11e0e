"""A sum tree over numpy arrays: weighted sampling and updates, O(log N) an item."""

from __future__ import annotations

import numpy as np

_SPARE = 16
"""Picks above the count wanted, so that a few repetitions need no second round."""


class SumTree:
    """Leaves hold weights >= 0; every inner node is the float64 sum of its two children.

    A node is recomputed from its children on each update and never adjusted by a difference:
    sums depend on the leaves alone, however many updates led there.
    """

    def __init__(self, capacity: int = 1024) -> None:
        """`capacity` leaves, rounded up to a power of two; `set` adds more when needed."""
        self._capacity = _power_of_two(capacity)
        # The root is node 1, the children of node i are 2i and 2i + 1, leaf i is capacity + i.
        self._sums = np.zeros(2 * self._capacity)

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self._sums[1])

    def weights(self, count: int) -> np.ndarray:
        """float64 [count], a view of the first leaves; `count` <= capacity."""
        return self._sums[self._capacity : self._capacity + count]

    def set(self, index: np.ndarray, weights: np.ndarray) -> None:
        """Give the leaves `index` int64 [K] their `weights` [K]; of a repeated leaf the last holds.

        Raises ValueError when a weight is negative or not finite, or an index is negative.
        """
        if not len(index):
            return
        if not np.isfinite(weights).all() or np.min(weights) < 0 or np.min(index) < 0:
            raise ValueError("a sum tree takes finite weights >= 0 at indices >= 0")
        self._reserve(int(np.max(index)) + 1)
        self._sums[self._capacity + index] = weights
        self._update(np.unique(self._capacity + index))

    def find(self, prefix: np.ndarray) -> np.ndarray:
        """int64 [K]: the leaf i with weights[:i].sum() <= prefix < weights[:i+1].sum(), for each.

        A leaf of weight zero is never found. Raises ValueError when `prefix` float64 [K] leaves
        [0, total).
        """
        if len(prefix) and not (np.min(prefix) >= 0 and np.max(prefix) < self.total):
            raise ValueError(f"prefixes must lie in [0, {self.total}), the sum of the weights")
        node, rest = np.ones(len(prefix), np.int64), np.array(prefix, np.float64)
        children = self._sums.reshape(-1, 2)
        for _ in range(self._capacity.bit_length() - 1):
            left, right = children[node].T
            # Rounding may leave `rest` at the end of a subtree: an empty right side is no way on.
            goes_right = (rest >= left) & (right > 0)
            rest -= left * goes_right
            node = 2 * node + goes_right
        return node - self._capacity

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """int64 [count] distinct leaves, in the order drawn; the weights stay as they are.

        Successive sampling: each pick is proportional to weight among the leaves not yet
        picked. Independent picks with the repetitions struck out follow exactly that law; when
        too few distinct ones came up, those found are set to zero and the rest is drawn anew.
        Raises ValueError when fewer than `count` leaves have weight.
        """
        taken = self._distinct(count, rng)
        if len(taken) == count:
            return taken
        weights = self._sums[self._capacity + taken]
        self.set(taken, np.zeros(len(taken)))
        try:
            rest = self.sample(count - len(taken), rng)
        finally:
            self.set(taken, weights)
        return np.concatenate([taken, rest])

    def _distinct(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """At least one and at most `count` leaves, by first appearance in independent picks."""
        if not count:
            return np.empty(0, np.int64)
        picks = self.find(rng.random(count + _SPARE) * self.total)
        _, first = np.unique(picks, return_index=True)
        return picks[np.sort(first)[:count]]

    def _reserve(self, leaves: int) -> None:
        if leaves <= self._capacity:
            return
        old = self.weights(self._capacity)
        self._capacity = _power_of_two(leaves)
        self._sums = np.zeros(2 * self._capacity)
        self.weights(len(old))[:] = old
        self._update(np.arange(self._capacity, self._capacity + len(old)))

    def _update(self, nodes: np.ndarray) -> None:
        """Recompute everything above `nodes`, sorted and all on one level."""
        children = self._sums.reshape(-1, 2)
        while nodes[0] > 1:
            nodes = nodes >> 1
            nodes = nodes[np.append(True, nodes[1:] != nodes[:-1])]
            left, right = children[nodes].T
            self._sums[nodes] = left + right


def _power_of_two(at_least: int) -> int:
    return 1 << max(at_least - 1, 1).bit_length()
