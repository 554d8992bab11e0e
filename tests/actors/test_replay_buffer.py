"""The central buffer actor answers for what it stores, and gives it back after a restart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import ray

from actors.replay_buffer import ReplayBufferActor
from rlvr_platform.config import load_config
from rlvr_platform.types import Outcome, Prompt, RolloutGroup, Ticket, Verdict, summarise

CONFIG = load_config(
    Path(__file__).parents[2] / "configs/dev/replay.yaml", ["replay.reuse.start_step=1"]
)
VERDICTS = tuple(Verdict(Outcome.CORRECT, float(i == 0), "", "", 0.0) for i in range(2))


def group() -> RolloutGroup:
    prompt = Prompt(4, "1+1=", np.arange(3, dtype=np.int32), "2", "train")
    return RolloutGroup(
        ticket=Ticket(7, 1, prompt, 2, 0),
        tokens=np.arange(4, dtype=np.int32),
        offsets=np.array([0, 2, 4]),
        loss_mask=np.ones(4, bool),
        logprobs=np.zeros(4, np.float32),
        versions=np.zeros(4, np.int32),
        finish=np.zeros(2, np.uint8),
        texts=("2", "3"),
    )


def test_it_says_what_a_draw_would_take_and_a_new_actor_draws_the_same(
    ray_session: None, tmp_path: Path
) -> None:
    def ask(actor, method, *arguments):
        return ray.get(getattr(actor, method).remote(*arguments), timeout=60)

    first, second = (ReplayBufferActor.remote(CONFIG) for _ in range(2))
    ask(first, "expect", 1, [7], False)
    ask(first, "insert", [summarise(group(), 0.0)], [VERDICTS], [group()])
    ask(first, "take", 1)
    ask(first, "keep", 1, [np.array([1.0, -1.0])], [np.array([1.0, 1.0])])
    told = ask(first, "explain", 3)
    assert (told["rollouts"], told["groups"], told["ages"]) == (2, 1, {"3": 2})
    assert {entry["group_id"] for entry in told["most_likely"]} == {7}
    ask(first, "save", str(tmp_path))
    ask(second, "load", str(tmp_path))
    assert ask(second, "explain", 3) == told
    draws = [ask(actor, "draw", 2, 3, 1) for actor in (first, second)]
    assert draws[0].sibling.tolist() == draws[1].sibling.tolist()
    tokens = [ray.get(draw.handles[0], timeout=60).tokens.tolist() for draw in draws]
    assert tokens == [[0, 1, 2, 3]] * 2
    for actor in (first, second):
        ray.kill(actor)
