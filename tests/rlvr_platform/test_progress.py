import asyncio

from rlvr_platform.progress import BusyClock, StepClock, StepTimer


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_overlapping_activities_count_once() -> None:
    clock = Clock()
    engines = BusyClock(clock)
    with engines.busy():
        clock.now = 1.0
        with engines.busy():
            clock.now = 3.0
        clock.now = 4.0
    clock.now = 10.0
    assert engines.read() == 4.0
    assert engines.read() == 0.0


def test_an_activity_that_still_runs_is_split_between_readings() -> None:
    clock = Clock()
    engines = BusyClock(clock)
    with engines.busy():
        clock.now = 2.0
        assert engines.read() == 2.0
        clock.now = 5.0
    assert engines.read() == 3.0


def test_evaluation_and_saving_are_not_part_of_the_step() -> None:
    clock = Clock()
    timer = StepTimer(clock)
    with timer.phase("learn"):
        clock.now = 2.0
    with timer.phase("evaluate"):
        clock.now = 9.0
    assert timer.seconds == {"learn": 2.0, "evaluate": 7.0}
    assert timer.step_seconds() == 2.0


def test_reach_waits_for_exactly_the_step_it_names() -> None:
    async def scenario() -> list[str]:
        clock, log = StepClock(0), []

        async def wait(step: int) -> None:
            await clock.reach(step)
            log.append(f"reached {step}")

        waiting = [asyncio.create_task(wait(step)) for step in (0, 1, 2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        log.append("advance")
        await clock.advance(1)
        await asyncio.sleep(0.01)
        log.append("advance")
        await clock.advance(2)
        await asyncio.gather(*waiting)
        return log

    assert asyncio.run(scenario()) == ["reached 0", "advance", "reached 1", "advance", "reached 2"]
