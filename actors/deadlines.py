"""Every wait on another process has a deadline and says whom it waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from rlvr_platform.errors import DeadlineError

T = TypeVar("T")


async def within(work: Awaitable[T], limit_s: float, who: str, fix: str) -> T:
    """Await `work`; raises DeadlineError naming `who` after `limit_s` seconds."""
    try:
        return await asyncio.wait_for(_awaitable(work), limit_s)
    except TimeoutError:
        raise DeadlineError(
            f"no answer from {who} within {limit_s:g} s", "an answer in time", fix
        ) from None


async def _awaitable(work: Awaitable[T]) -> T:
    return await work
