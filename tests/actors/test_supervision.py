"""Lost and stuck actors are replaced, within a budget, with everything written down."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from actors.deadlines import WAITS, within
from actors.processes import Member
from actors.supervision import Actors, Budget, Role, Supervision, watch
from rlvr_platform.config.supervision import SupervisionConfig
from rlvr_platform.errors import ClusterError, InputError
from tests.actors.conftest import Events


@ray.remote
class Counter(Member):
    """Counts; its state is the only thing that a loss can lose."""

    async def add(self, number: int) -> int:
        self.total = getattr(self, "total", 0) + number
        return self.total

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def fail(self) -> None:
        raise InputError("this is the caller's fault")

    async def die(self) -> None:
        os._exit(1)

    async def freeze(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    async def time_out(self) -> None:
        raise TimeoutError("the store of the group")


class Counting:
    """A port over the counter: it remembers what it added."""

    def __init__(self, supervision: Supervision) -> None:
        self.total = 0
        self.revived = 0
        self.revival = asyncio.Event()
        """Until it is set, a revival does not go on."""
        self.revival.set()
        self.on_revival: Callable[[], None] = lambda: None
        self.before_state: Callable[[Actors], Awaitable[None]] = lambda _: asyncio.sleep(0)
        self.role = Role("counter", lambda: [Counter.remote()], self._revive, supervision)

    async def add(self, number: int) -> int:
        answer = await self.ask("add", number)
        self.total += number
        return int(answer)

    async def ask(self, method: str, *arguments: Any, limit_s: float = 30) -> Any:
        def work(actors: Actors) -> Any:
            return getattr(actors[0], method).remote(*arguments)

        return await self.role.insist(work, method, limit_s, "")

    async def _revive(self, actors: Actors) -> None:
        self.revived += 1
        self.on_revival()
        await self.revival.wait()
        await self.before_state(actors)
        await actors[0].add.remote(self.total)


@pytest.fixture
def port(ray_session: None, supervision: Supervision) -> Any:
    own = Counting(supervision)
    asyncio.run(own.role.started())
    yield own
    asyncio.run(own.role.end())


def pid(events: Events) -> int:
    """The process of the role as the events tell it."""
    return int([e for e in events if e["kind"] in ("role_started", "role_restarted")][-1]["pid"])


def test_a_killed_actor_is_replaced_once_however_many_calls_it_costs(
    port: Counting, events: Events
) -> None:
    async def scenario() -> list[int]:
        await port.add(5)
        waiting = [asyncio.create_task(port.ask("wait", 0.5)) for _ in range(10)]
        await asyncio.sleep(0.1)
        os.kill(pid(events), signal.SIGKILL)
        await asyncio.gather(*waiting)
        return [await port.add(1), await port.add(1)]

    assert asyncio.run(scenario()) == [6, 7]
    assert port.revived == 1
    (event,) = events.of("role_restarted")
    assert event["role"] == "counter"
    assert 0 < event["seconds"] < 30


def test_a_stopped_actor_is_explained_with_its_state_then_killed_and_replaced(
    port: Counting, events: Events
) -> None:
    stopped = pid(events)
    os.kill(stopped, signal.SIGSTOP)
    asyncio.run(port.ask("add", 1, limit_s=1.0))
    (stuck,) = events.of("stuck")
    assert stuck["reason"] == "no answer from counter 0's add within 1 s"
    (stack,) = stuck["stacks"].values()
    assert "stopped" in stack
    assert not Path(f"/proc/{stopped}").exists()


def test_an_error_of_the_callers_is_no_loss(port: Counting, events: Events) -> None:
    with pytest.raises(InputError, match="the caller's fault"):
        asyncio.run(port.ask("fail"))
    assert events.of("role_restarted") == []


def test_a_budget_that_is_used_up_ends_in_one_message(port: Counting, events: Events) -> None:
    with pytest.raises(ClusterError, match="counter 0 was lost again after 5 restarts"):
        asyncio.run(port.ask("die"))
    assert port.revived == 5


def test_restarts_come_at_once_then_at_growing_distance_and_are_forgotten_after_the_window() -> (
    None
):
    now = 0.0
    budget = Budget(SupervisionConfig(restarts=4, backoff_s=2.0, window_s=100.0), lambda: now)
    loss = ClusterError("gone")
    assert [budget.spend("it", loss) for _ in range(4)] == [0, 2, 4, 8]
    with pytest.raises(ClusterError, match="4 restarts within 100 s: gone"):
        budget.spend("it", loss)
    now = 101.0
    assert budget.spend("it", loss) == 0


def test_the_watchdog_says_once_who_waits_for_whom(port: Counting, events: Events) -> None:
    async def scenario() -> None:
        watching = asyncio.create_task(watch([port.role], 0.4, events))
        await port.ask("wait", 1.5)
        watching.cancel()

    asyncio.run(scenario())
    (stall,) = events.of("no_progress")
    (wait,) = stall["waits"]
    assert wait["who"] == "counter 0's wait"
    assert 0.4 <= wait["age_s"] <= wait["limit_s"]
    assert any("Counter" in process for process in stall["stacks"]["counter 0"])


def test_waits_that_end_are_progress_and_leave_no_trace() -> None:
    async def scenario() -> None:
        slow = asyncio.create_task(within(asyncio.sleep(0.3), 5, "the slow one", ""))
        began = time.monotonic()
        while time.monotonic() - began < 0.2:
            await within(asyncio.sleep(0.01), 5, "the quick one", "")
        assert WAITS.idle_s < 0.1
        assert [wait["who"] for wait in WAITS.listed()] == ["the slow one"]
        await slow

    asyncio.run(scenario())
    assert WAITS.listed() == []
    assert WAITS.idle_s == 0


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_whoever_gives_up_during_a_replacement_leaves_an_actor_with_its_state(
    port: Counting, events: Events
) -> None:
    """As a stop does, which cancels a `take` and then saves the buffer."""

    async def scenario() -> int:
        await port.add(5)
        killed(pid(events))
        entered, port.revival = asyncio.Event(), asyncio.Event()
        port.on_revival = entered.set
        giving_up = asyncio.create_task(port.ask("wait", 60))
        await entered.wait()
        giving_up.cancel()
        saving = asyncio.create_task(port.add(1))
        await asyncio.sleep(0.1)
        port.revival.set()
        return await saving

    assert asyncio.run(scenario()) == 6
    assert port.revived == 1


def test_an_answer_that_arrives_when_its_actor_is_lost_already_does_not_count(
    port: Counting, events: Events
) -> None:
    """The new actor's state is made from what was answered before: it does not know of it."""

    async def scenario() -> tuple[int, int]:
        await port.add(5)
        answered, arrived = asyncio.Event(), asyncio.Event()

        async def late(actors: Actors) -> int:
            answer = int(await actors[0].add.remote(1))
            answered.set()
            await arrived.wait()
            return answer

        slow = asyncio.create_task(port.role.insist(late, "add", 30, ""))
        await answered.wait()
        killed(pid(events))
        await port.ask("add", 0)
        arrived.set()
        return await slow, await port.ask("add", 0)

    assert asyncio.run(scenario()) == (6, 6)


def test_a_role_that_ends_while_it_is_replaced_ends_soon_and_starts_nothing_more(
    port: Counting, events: Events
) -> None:
    async def scenario() -> None:
        killed(pid(events))
        entered, port.revival = asyncio.Event(), asyncio.Event()
        port.on_revival = entered.set
        waiting = asyncio.create_task(port.ask("add", 1))
        await entered.wait()
        (family,) = port.role._families
        began = time.monotonic()
        await port.role.end()
        assert time.monotonic() - began < 10
        assert not Path(f"/proc/{family.own.pid}").exists()
        with pytest.raises(ray.exceptions.RayActorError):
            await port.ask("add", 1)
        assert waiting.cancelled()

    asyncio.run(scenario())
    assert events.of("role_restarted") == []


def test_a_new_actor_that_gets_stuck_before_it_has_its_state_is_killed_too(
    port: Counting, events: Events
) -> None:
    stuck: list[int] = []

    async def freeze(actors: Actors) -> None:
        if not stuck:
            stuck.append((await actors[0].identify.remote()).own.pid)
            await within(actors[0].freeze.remote(), 0.5, "the frozen one", "")

    port.before_state = freeze
    killed(pid(events))
    asyncio.run(port.ask("add", 1))
    assert not Path(f"/proc/{stuck[0]}").exists()


def test_a_timeout_that_is_the_answer_is_no_missing_answer(port: Counting, events: Events) -> None:
    with pytest.raises(TimeoutError, match="the store of the group"):
        asyncio.run(port.ask("time_out"))
    assert events.of("role_restarted") == []
