"""Where a group's tokens are, and how to get them.

The run's main process owns every group from its generation on: rollout workers return groups to
it, and it passes references on. The loss of any actor therefore loses no tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray

from rlvr_platform.types import GradedGroup, GradedGroups, RolloutGroup


@dataclass(frozen=True, slots=True)
class GroupHandle:
    """One of the groups that finished together."""

    finished: Any
    """Ray object reference to a tuple of `RolloutGroup`."""
    place: int
    """Position in that tuple."""


def graded_groups(groups: GradedGroups) -> list[GradedGroup]:
    """The groups one by one."""
    finished = groups.finished
    return [
        GradedGroup(summary, verdicts, GroupHandle(finished.handle, place))
        for place, (summary, verdicts) in enumerate(
            zip(finished.summaries, groups.verdicts, strict=True)
        )
    ]


def get_groups(handles: Sequence[GroupHandle]) -> list[RolloutGroup]:
    """The groups behind the handles; waits for those that lie on another node."""
    references = list(dict.fromkeys(handle.finished for handle in handles))
    found = dict(zip(references, ray.get(references), strict=True))
    return [found[handle.finished][handle.place] for handle in handles]


async def fetch_groups(handles: Sequence[GroupHandle]) -> list[RolloutGroup]:
    """`get_groups` inside an event loop."""
    references = list(dict.fromkeys(handle.finished for handle in handles))
    found = dict(zip(references, await asyncio.gather(*references), strict=True))
    return [found[handle.finished][handle.place] for handle in handles]
