"""DeepSpeed ranks against one plain process that runs the same update."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from actors.groups import GroupHandle
from actors.learner import LearnerActor
from actors.learners import Journal, RemoteLearners
from actors.supervision import Supervision
from rlvr_platform.batching.rows import gather_rows
from rlvr_platform.batching.sharding import plan_update
from rlvr_platform.config import ExperimentConfig
from rlvr_platform.errors import ClusterError, NumericalError
from rlvr_platform.guards import read_evidence, row_losses
from rlvr_platform.policy import PolicyModel
from rlvr_platform.schedule import learning_rate
from rlvr_platform.types import LearnerReport, Prompt, RolloutGroup, Ticket, TrainBatch
from rlvr_platform.update import lay_out, optimizer_step, score_frozen

STEPS = 3


def ragged_group(index: int, rng: np.random.Generator) -> RolloutGroup:
    size = int(rng.integers(2, 6))
    lengths = rng.integers(1, 12, size=size)
    total = int(lengths.sum())
    prompt = Prompt(index, "", rng.integers(2, 16, size=rng.integers(2, 9), dtype=np.int32), "", "")
    return RolloutGroup(
        ticket=Ticket(index, 1, prompt, size, 0),
        tokens=rng.integers(2, 16, size=total, dtype=np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        loss_mask=np.ones(total, bool),
        logprobs=rng.normal(-2.5, 0.2, size=total).astype(np.float32),
        versions=np.zeros(total, np.int32),
        finish=np.zeros(size, np.uint8),
        texts=("",) * size,
    )


def batch_of(groups: Sequence[RolloutGroup], handles: Sequence[Any], seed: int) -> TrainBatch:
    rows = [(g, s) for g, group in enumerate(groups) for s in range(group.size)]
    lengths = np.array([np.diff(groups[g].offsets)[s] for g, s in rows], np.int32)
    prompts = np.array([len(groups[g].ticket.prompt.tokens) for g, _ in rows], np.int32)
    return TrainBatch(
        step=1,
        version=0,
        handles=tuple(handles),
        group=np.array([g for g, _ in rows], np.int32),
        sibling=np.array([s for _, s in rows], np.int32),
        advantage=np.random.default_rng(seed).normal(size=len(rows)).astype(np.float32),
        weight=np.ones(len(rows), np.float32),
        length=prompts + lengths,
        trained_tokens=lengths,
    )


def batches(count: int) -> list[tuple[list[RolloutGroup], int]]:
    rng = np.random.default_rng(0)
    return [([ragged_group(i, rng) for i in range(7)], step) for step in range(count)]


class PlainEngine:
    """AdamW on one process, nothing sharded: the oracle."""

    device = torch.device("cpu")

    def __init__(self, config: ExperimentConfig, model: str) -> None:
        self._config = config.learner.optimizer
        lm = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        self.policy = PolicyModel(lm, config.rollout.temperature, chunk=1024)
        o = self._config
        self._adam = torch.optim.AdamW(
            self.policy.parameters(), betas=(o.beta1, o.beta2), eps=o.eps, weight_decay=0.0
        )

    def __call__(self, *inputs: Tensor | None, min_chunks: int) -> tuple[Tensor, Tensor]:
        return self.policy(*inputs, min_chunks=min_chunks)

    def backward(self, loss: Tensor, last: bool) -> None:
        loss.backward()

    def step(self, learning_rate: float) -> float:
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self._config.max_grad_norm)
        self._adam.step()
        self._adam.zero_grad()
        return float(norm)


def train_plainly(config: ExperimentConfig, model: str) -> tuple[list[float], dict[str, Tensor]]:
    """Gradient norms and final weights of the oracle."""
    engine, norms, taken = PlainEngine(config, model), [], 0
    algorithm, learner = config.algorithm, config.learner
    for groups, seed in batches(STEPS):
        plan = plan_update(
            batch_of(groups, groups, seed),
            learner.minibatches,
            1,
            config.seed + 1,
            algorithm.normalisation,
            config.rollout.max_new_tokens,
        )
        steps = [
            lay_out(gather_rows(shard, shard.handles), learner, engine.policy.chunks, lambda c: c)
            for (shard,) in plan
        ]
        old = [score_frozen(engine, step, engine.device) for step in steps]
        for step, frozen in zip(steps, old, strict=True):
            total = config.steps * learner.minibatches
            rate = learning_rate(taken, total, learner.optimizer)
            _, norm = optimizer_step(engine, step, frozen, None, algorithm, rate)
            taken += 1
        norms.append(norm)
    return norms, dict(engine.policy.causal_lm.named_parameters())


@contextmanager
def learners(
    config: ExperimentConfig, model: str, offending: Path = Path("offending")
) -> Iterator[RemoteLearners]:
    env = {"runtime_env": {"env_vars": {"OMP_NUM_THREADS": "1"}}}
    supervision = Supervision(config.supervision, lambda kind, **fields: None)

    def create() -> list[Any]:
        ranks = range(config.learner.ranks)
        return [LearnerActor.options(**env).remote(r, config, model, offending) for r in ranks]

    group = RemoteLearners(create, config, supervision)
    try:
        asyncio.run(group.start())
        yield group
    finally:
        for actor in group.role.actors:
            ray.kill(actor)


def train(group: RemoteLearners, count: int = STEPS) -> list[LearnerReport]:
    async def run() -> list[LearnerReport]:
        return [
            await group.update(
                batch_of(groups, [GroupHandle(ray.put((g,)), 0) for g in groups], seed)
            )
            for groups, seed in batches(count)
        ]

    return asyncio.run(run())


def published(group: RemoteLearners) -> dict[str, Tensor]:
    from safetensors.torch import load

    snapshot = asyncio.run(group.publish(1))
    return {
        name: tensor
        for reference in snapshot.handles[0]
        for name, tensor in load(ray.get(reference).tobytes()).items()
    }


def changed(config: ExperimentConfig, **learner: Any) -> ExperimentConfig:
    return config.model_copy(update={"learner": config.learner.model_copy(update=learner)})


@pytest.mark.parametrize(
    ("ranks", "zero_stage", "layout", "minibatches"),
    [(1, 0, "packed", 2), (2, 2, "padded", 1), (2, 3, "shared_prompt", 2)],
)
def test_sharded_training_moves_the_weights_as_one_plain_process_does(
    ray_session: None,
    config: ExperimentConfig,
    tiny_model: str,
    tmp_path: Path,
    ranks: int,
    zero_stage: int,
    layout: str,
    minibatches: int,
) -> None:
    own = changed(
        config, ranks=ranks, zero_stage=zero_stage, layout=layout, minibatches=minibatches
    )
    norms, expected = train_plainly(own, tiny_model)
    with learners(own, tiny_model) as group:
        reports = train(group)
        weights = published(group)
        assert [r.grad_norm for r in reports] == pytest.approx(norms, rel=1e-4)
        assert reports[-1].optimizer_steps == STEPS * minibatches
        assert set(weights) == set(expected)
        for name, tensor in weights.items():
            torch.testing.assert_close(tensor, expected[name].detach(), atol=2e-6, rtol=1e-4)
        _assert_resumes(group, own, tiny_model, tmp_path, weights)


def _assert_resumes(
    group: RemoteLearners,
    config: ExperimentConfig,
    model: str,
    folder: Path,
    weights: dict[str, Tensor],
) -> None:
    """Saved, moved on and loaded again, the ranks are where they were; the model is exported."""
    asyncio.run(group.save(folder))
    onward = train(group, 1)
    asyncio.run(group.load(folder))
    for name, tensor in published(group).items():
        assert torch.equal(tensor, weights[name])
    assert train(group, 1) == [_with_time(onward[0])]
    exported = AutoModelForCausalLM.from_pretrained(folder / "model")
    for name, parameter in exported.named_parameters():
        assert torch.equal(parameter, weights[name])


def test_dropout_goes_on_where_the_checkpoint_left_it(
    ray_session: None, config: ExperimentConfig, tiny_model: str, tmp_path: Path
) -> None:
    with_dropout = tmp_path / "model"
    shutil.copytree(tiny_model, with_dropout)
    settings = json.loads((with_dropout / "config.json").read_text())
    (with_dropout / "config.json").write_text(json.dumps({**settings, "attention_dropout": 0.2}))
    with learners(config, str(with_dropout)) as group:
        asyncio.run(group.save(tmp_path / "checkpoint"))
        onward = train(group, 1)
        asyncio.run(group.load(tmp_path / "checkpoint"))
        assert train(group, 1) == [_with_time(onward[0])]


async def save(group: RemoteLearners, folder: Path, lose_a_rank: bool) -> None:
    """Save; a rank may be killed when the first file is there, and leaves it half written."""
    victim = (await group.role.actors[1].identify.remote()).own.pid
    saving = asyncio.create_task(group.save(folder))
    if lose_a_rank:
        while not any(found.is_file() for found in folder.rglob("*")):
            await asyncio.sleep(0.001)
        os.kill(victim, signal.SIGKILL)
    await saving


def test_learners_that_lose_a_rank_are_where_they_would_have_been(
    ray_session: None, config: ExperimentConfig, tiny_model: str, tmp_path: Path
) -> None:
    """Rebuilt from the initial model, then from a checkpoint: bit for bit, unseen by the caller."""
    own = changed(config, ranks=2, zero_stage=1)
    weights = {}
    for lost in (False, True):
        folder = tmp_path / f"checkpoint-{lost}"
        with learners(own, tiny_model) as group:
            train(group, 2)
            kill_a_rank(group, lost)
            train(group, 1)
            asyncio.run(group.save(folder))
            group.saved(folder)
            train(group, 1)
            kill_a_rank(group, lost)
            (report,) = train(group, 1)
            weights[lost] = published(group)
            assert report.optimizer_steps == 5
    for name, tensor in weights[False].items():
        assert torch.equal(tensor, weights[True][name])


def kill_a_rank(group: RemoteLearners, really: bool) -> None:
    if really:
        os.kill(ray.get(group.role.actors[1].identify.remote()).own.pid, signal.SIGKILL)


@pytest.mark.parametrize("policy", ["skip", "stop"])
def test_an_update_that_is_not_finite_is_not_taken_and_its_rows_are_saved(
    ray_session: None, config: ExperimentConfig, tiny_model: str, tmp_path: Path, policy: str
) -> None:
    """One rank's NaN: both ranks refuse that minibatch, and the next update goes on."""
    own = changed(config, ranks=2, zero_stage=2, minibatches=2, on_non_finite=policy)
    ((groups, seed),) = batches(1)
    handles = [GroupHandle(ray.put((g,)), 0) for g in groups]
    bad = batch_of(groups, handles, seed)
    bad.advantage[2] = np.nan
    with learners(own, tiny_model, tmp_path) as group:
        train(group, 1)
        if policy == "stop":
            with pytest.raises(NumericalError, match=r"not finite|optimizer step"):
                asyncio.run(group.update(bad))
        else:
            report = asyncio.run(group.update(bad))
            assert (report.skipped_updates, report.optimizer_steps) == (1, 3)
            assert np.isfinite(report.loss) and report.tokens > 0
            (refusal,) = report.refusals
            assert str(tmp_path) in refusal
            assert train(group, 1)[0].optimizer_steps == 5
    (file,) = tmp_path.iterdir()
    _, evidence = read_evidence(file)
    assert row_losses(evidence).faults


def test_more_updates_than_are_kept_end_the_run_in_plain_words(tmp_path: Path) -> None:
    journal = Journal(longest=2)
    ((groups, seed),) = batches(1)
    for _ in range(3):
        journal.add(batch_of(groups, groups, seed))
    with pytest.raises(ClusterError, match="lost more than 2 updates after a checkpoint"):
        journal.batches()
    journal.begin(tmp_path)
    assert journal.batches() == [] and journal.checkpoint == tmp_path


class _AnySeconds(float):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, float)

    __hash__ = float.__hash__


def _with_time(report: LearnerReport) -> LearnerReport:
    return dataclasses.replace(report, seconds=_AnySeconds())


def test_small_steps_in_bfloat16_are_not_lost(
    ray_session: None, config: ExperimentConfig, tiny_model: str
) -> None:
    """A bfloat16 weight near 1 cannot move by 1e-4; its float32 master must add steps up."""
    rate = config.learner.optimizer.model_copy(update={"learning_rate": 1e-4})
    own = changed(config, dtype="bfloat16", zero_stage=1, optimizer=rate)
    with learners(own, tiny_model) as group:
        before = published(group)["model.norm.weight"]
        for _ in range(40):
            train(group, 1)
        after = published(group)["model.norm.weight"]
    assert (before == 1).all()
    assert (after != before).float().mean() > 0.1
