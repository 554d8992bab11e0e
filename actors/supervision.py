"""Roles of a run and how they come back: lost or stuck actors are replaced within a budget.

Each port of the loop owns its role, makes its calls through `Role.insist`, and says by `revive`
how new actors get their state. The loop sees a slow answer and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError

from actors.deadlines import WAITS, within
from actors.processes import NODE_DEADLINE_S, Family, dump, finish, grown, kill, on_node
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.supervision import SupervisionConfig
from rlvr_platform.errors import ClusterError, DeadlineError, EngineLost

T = TypeVar("T")
Actors = Sequence[Any]

IDENTIFY_DEADLINE_S = 120.0
LONGEST_BACKOFF_S = 60.0


class Events(Protocol):
    """Where it is written down, such as `Recorder.event`."""

    def __call__(self, kind: str, **fields: Any) -> None: ...


def is_loss(error: BaseException) -> bool:
    """True when the actor that was asked is dead or stuck, so that another one may do better."""
    if isinstance(error, RayTaskError):  # raised inside the actor, which lives
        return isinstance(error.cause, EngineLost)
    return isinstance(error, RayActorError | OutOfMemoryError | DeadlineError)


@dataclass(frozen=True, slots=True)
class Supervision:
    """What all roles of a run share."""

    config: SupervisionConfig
    events: Events


class Budget:
    """Restarts that one role has left."""

    def __init__(
        self, config: SupervisionConfig, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._clock = clock
        self._spent: list[float] = []

    def spend(self, who: str, loss: Exception) -> float:
        """Seconds to wait before this restart. Raises ClusterError when none is left."""
        now, config = self._clock(), self._config
        self._spent = [when for when in self._spent if now - when < config.window_s]
        if len(self._spent) >= config.restarts:
            raise ClusterError(
                f"{who} was lost again after {len(self._spent)} restarts within "
                f"{config.window_s:g} s: {in_short(loss)}",
                "a process that lives and answers",
                "see its log in Ray's session folder; supervision.restarts sets the budget; "
                "`--resume` goes on from the last checkpoint",
            )
        self._spent.append(now)
        doublings = len(self._spent) - 2
        return 0.0 if doublings < 0 else min(config.backoff_s * 2.0**doublings, LONGEST_BACKOFF_S)


class Role:
    """The actors that do one job: started, lost and replaced together."""

    def __init__(
        self,
        name: str,
        create: Callable[[], Actors],
        revive: Callable[[Actors], Awaitable[None]],
        supervision: Supervision,
        index: int = 0,
    ) -> None:
        """`create` makes actors, `revive` starts them and gives them the present state.

        `name` is the one in events; `index` tells roles of one name apart.
        """
        self.name, self.index = name, index
        self._create, self._revive = create, revive
        self._events = supervision.events
        self._budget = Budget(supervision.config)
        self._replacement: asyncio.Task[None] | None = None
        self._generation = 0
        self._retired = False
        self._families: list[Family] = []
        self._created = time.monotonic()
        self.actors = create()

    @property
    def title(self) -> str:
        """For messages."""
        return f"{self.name} {self.index}".replace("_", " ")

    async def identify(self) -> None:
        """Learn which processes the role has, so that they can be looked at and killed."""
        asked = asyncio.gather(*(actor.identify.remote() for actor in self.actors))
        who = f"{self.title}'s process"
        self._families = await within(asked, IDENTIFY_DEADLINE_S, who, "see its log")

    async def started(self) -> None:
        """Write down which processes the role has and how long they took to be able to work."""
        await self.identify()
        self._tell("role_started", seconds=round(time.monotonic() - self._created, 3))

    async def insist(
        self, work: Callable[[Actors], Awaitable[T]], what: str, limit_s: float, fix: str
    ) -> T:
        """What `work` on the actors returns; on new ones whenever they are lost meanwhile.

        An answer that comes from actors whose state is lost already does not count.
        Raises ClusterError when the budget of restarts is used up, and what the actors raise.
        """
        while True:
            actors, generation = await self.present()
            try:
                answer = await within(work(actors), limit_s, f"{self.title}'s {what}", fix)
            except Exception as error:
                if not is_loss(error):
                    raise
                await self.replace(generation, error)
            else:
                if generation == self._generation and self._replacement is None:
                    return answer

    async def present(self) -> tuple[Actors, int]:
        """The actors and their generation, once no replacement is under way."""
        await self._replaced()
        return self.actors, self._generation

    async def replace(self, generation: int, loss: Exception) -> None:
        """Put new actors, with the present state, in the place of those of `generation`.

        Does nothing when somebody else did. Raises ClusterError when the budget is used up, and
        `loss` when the role is to end.
        """
        if self._retired:
            raise loss
        if generation == self._generation and self._replacement is None:
            self._replacement = asyncio.create_task(self._replace(loss))
        await self._replaced()

    async def _replaced(self) -> None:
        """Wait for a replacement under way. It goes on when whoever waits for it is cancelled."""
        while self._replacement is not None:
            await asyncio.shield(self._replacement)

    async def _replace(self, loss: Exception) -> None:
        began, reason = time.monotonic(), in_short(loss)
        try:
            if isinstance(loss, DeadlineError):
                await self._explain(reason)
            while (failure := await self._try(loss)) is not None:
                loss = failure
            self._generation += 1
        finally:
            self._replacement = None
        seconds = round(time.monotonic() - began, 3)
        self._tell("role_restarted", reason=reason, seconds=seconds)

    async def _try(self, loss: Exception) -> Exception | None:
        """One restart; returns the loss that it ended in, if it did."""
        await asyncio.sleep(self._budget.spend(self.title, loss))
        await self._kill()
        self.actors = self._create()
        try:
            await self.identify()  # before anything can get stuck, and again with its children
            await self._revive(self.actors)
            await self.identify()
        except Exception as error:
            if not is_loss(error):
                raise
            return error
        return None

    def _tell(self, kind: str, **fields: Any) -> None:
        """One event for each of the role's actors."""
        for number, family in enumerate(self._families):
            own = {"pid": family.own.pid, "node": family.node}
            self._events(kind, role=self.name, index=self.index + number, **own, **fields)

    async def stacks(self) -> dict[str, str]:
        """What every process of the role is doing."""
        found: dict[str, str] = {}
        for family in self._families:
            try:
                found |= await on_node(dump, family)
            except (RayError, DeadlineError) as error:
                found[str(family.own.pid)] = f"cannot be seen: {in_short(error)}"
        return found

    async def _explain(self, reason: str) -> None:
        """Write down what the role is doing instead of answering, while it can still be seen."""
        self._events("stuck", role=self.name, reason=reason, stacks=await self.stacks())

    def retire(self) -> None:
        """Start nothing any more: a loss is an error from now on."""
        self._retired = True
        if self._replacement is not None:
            self._replacement.cancel()

    async def end(self) -> None:
        """End the role's actors, those included that do not hear a request any more."""
        self.retire()
        if self._replacement is not None:
            await asyncio.wait([self._replacement], timeout=NODE_DEADLINE_S)
        self._families = await self._on_nodes(grown)
        self._end_actors()
        await self._on_nodes(finish)

    async def _kill(self) -> None:
        # By number too: an actor that is stopped does not hear that it should end.
        await self._on_nodes(kill)
        self._end_actors()
        self._families = []

    def _end_actors(self) -> None:
        for actor in self.actors:
            with contextlib.suppress(RayActorError):
                ray.kill(actor)

    async def _on_nodes(self, function: Callable[[Family], T]) -> list[T]:
        done = []
        for family in self._families:
            with contextlib.suppress(RayError, DeadlineError):  # the node may be gone as well
                done.append(await on_node(function, family))
        return done


async def watch(roles: Sequence[Role], patience_s: float, events: Events) -> None:
    """Once per stall, write down who waits for whom; runs until it is cancelled."""
    said = False
    while True:
        await asyncio.sleep(patience_s / 4)
        stalled = WAITS.idle_s >= patience_s
        if stalled and not said:
            waits = WAITS.listed()
            awaited = [r for r in roles if any(r.title in str(w["who"]) for w in waits)]
            stacks = {role.title: await role.stacks() for role in awaited}
            events("no_progress", idle_s=round(WAITS.idle_s, 1), waits=waits, stacks=stacks)
        said = stalled


def require_replaceable(config: ExperimentConfig, who: str) -> None:
    """Raise ClusterError where the weight transport is one group that cannot lose a member."""
    if config.sync.transport == "nccl":
        raise ClusterError(
            f"{who} was lost, and sync.transport=nccl ties it to all engines and learners",
            "all of them alive from start to end",
            "`--resume` goes on from the last checkpoint; with sync.transport=object_store the "
            "platform replaces a lost engine or learner by itself",
        )


def in_short(error: BaseException) -> str:
    """The first line of an error, for one line of an event."""
    if isinstance(error, RayTaskError):  # its own first line is Ray's
        error = error.cause
    return (str(error).strip() or repr(error)).splitlines()[0]
