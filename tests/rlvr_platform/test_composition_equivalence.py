"""With every method off, or on and idle, a step is plain GRPO bit for bit."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Qwen3Config, Qwen3ForCausalLM

from rlvr_platform.algorithms.avspo import starting_trigger
from rlvr_platform.batching.rows import gather_rows
from rlvr_platform.batching.sharding import plan_update
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.policy import PolicyModel
from rlvr_platform.replay.experience import ExperienceReplay
from rlvr_platform.step import anchored, compose, pool_rows, pooled, replay_rows
from rlvr_platform.types import (
    Finish,
    GradedGroup,
    Outcome,
    Prompt,
    RolloutGroup,
    Ticket,
    TrainBatch,
    Verdict,
    summarise,
)
from rlvr_platform.update import lay_out, optimizer_step

VOCABULARY = 29
LONGEST = 12
KINDS = ["grpo", "dr_grpo", "rloo"]
NEVER = {"kind": "avspo", "tau": 1.0, "tau_min": 1.0, "tau_max": 1.0}
IDLE = {
    "all off": {},
    "PODS that keeps all": {"downsampling": {"kind": "pods", "keep": 8}},
    "AVSPO that never triggers": {"avspo": NEVER},
    "replay before its start": {"replay": {"reuse": {"kind": "prioritised"}}},
    "a pool before its start": {
        "replay": {"reuse": {"kind": "prioritised", "composition": "pool"}}
    },
}
NOTHING_TO_ACT_ON = {
    "a mask": {"algorithm": {"overlong": {"kind": "mask"}}},
    "a penalty": {"algorithm": {"overlong": {"kind": "penalty", "cache": 1}}},
    "VIP with equal counts": {"allocator": {"kind": "vip"}},
    "all methods": {
        "algorithm": {"overlong": {"kind": "mask"}},
        "allocator": {"kind": "vip"},
        **{section: value for of in IDLE.values() for section, value in of.items()},
    },
}
"""Idle where every sibling is valid, none overlong, and all prompts have as many."""


def settings(kind="grpo", algorithm=(), **sections):
    tree = {
        "steps": 100,
        "seed": 5,
        "model": {"kind": "pretrained", "path": "m"},
        "data": {"train": {"kind": "arithmetic"}},
        "verifier": {"use": {"kind": "exact"}},
        "rollout": {"max_new_tokens": LONGEST},
        "algorithm": {"advantage": kind, **dict(algorithm)},
        "learner": {
            "dtype": "float32",
            "tokens_per_micro_batch": 60,
            "optimizer": {"learning_rate": 1e-2},
        },
        **sections,
    }
    return ExperimentConfig.model_validate(tree, strict=False)


def plain_grpo(graded, kind, step, version):
    """The textbook: groups of valid rewards that differ, each centred and scaled on its own."""
    handles, rows = [], []
    for group in graded:
        finish = group.summary.finish.tolist()
        reward = {
            i: verdict.reward
            for i, verdict in enumerate(group.verdicts)
            if verdict.outcome not in ("timeout", "error") and finish[i] != 2
        }
        own = np.array(list(reward.values()))
        if len(own) < 2 or own.std() < 1e-6:
            continue
        centred = own - own.mean()
        advantage = {
            "grpo": centred / (own.std() + 1e-6),
            "dr_grpo": centred,
            "rloo": centred * (len(own) / (len(own) - 1)),
        }[kind]
        for i, value in zip(reward, advantage, strict=True):
            tokens = group.handle.loss_mask[group.handle.sibling(i)]
            length = len(group.handle.ticket.prompt.tokens) + len(tokens)
            rows.append((len(handles), i, value, 1.0, length, tokens.sum()))
        handles.append(group.handle)
    types = (np.int32, np.int32, np.float32, np.float32, np.int32, np.int32)
    columns = (np.array([row[c] for row in rows], t) for c, t in enumerate(types))
    return TrainBatch(step, version, tuple(handles), *columns)


def graded_group(group_id, verdicts, finish, seed):
    """A group of random tokens, some of them masked; `finish` has one entry per verdict."""
    generator, size = np.random.default_rng([seed, group_id]), len(verdicts)
    lengths = generator.integers(1, LONGEST, size)
    total = int(lengths.sum())
    prompt = generator.integers(0, VOCABULARY, generator.integers(2, 6)).astype(np.int32)
    group = RolloutGroup(
        ticket=Ticket(group_id, 1, Prompt(group_id, "", prompt, "", "test"), size, 0),
        tokens=generator.integers(0, VOCABULARY, total).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        loss_mask=generator.random(total) < 0.9,
        logprobs=generator.normal(-3.0, 0.3, total).astype(np.float32),
        versions=np.zeros(total, np.int32),
        finish=np.array(finish, np.uint8),
        texts=("",) * size,
    )
    return GradedGroup(summarise(group, 1.0), tuple(verdicts), group)


def scored(reward):
    return Verdict(Outcome.CORRECT if reward == 1 else Outcome.WRONG, reward, "", "test", 0.0)


MISSING = [Verdict(outcome, None, "", "test", 0.0) for outcome in (Outcome.TIMEOUT, Outcome.ERROR)]
rewards = st.sampled_from([0.0, 0.0, 1.0, 1.0, 0.5, -1.0]) | st.floats(-10, 10)
siblings = st.tuples(
    rewards.map(scored) | st.sampled_from(MISSING),
    st.sampled_from([Finish.STOP, Finish.STOP, Finish.STOP, Finish.LENGTH, Finish.ABORT]),
)
any_groups = st.lists(st.lists(siblings, min_size=1, max_size=8), max_size=6).map(
    lambda drawn: [
        graded_group(i, *zip(*group, strict=True), seed=7) for i, group in enumerate(drawn)
    ]
)
complete_groups = (
    st.integers(2, 8)
    .flatmap(lambda size: st.lists(st.lists(rewards, min_size=size, max_size=size), max_size=6))
    .map(
        lambda drawn: [
            graded_group(i, [scored(r) for r in own], [Finish.STOP] * len(own), seed=8)
            for i, own in enumerate(drawn)
        ]
    )
)


def composed(groups, config, step=4):
    """The batch of a step, in the loop's order, with replay where it is configured."""
    fresh = compose(groups, step, 3, starting_trigger(config.avspo, {}), config)
    reuse = config.replay.reuse
    if reuse.kind == "none":
        return fresh.batch
    store = ExperienceReplay(reuse, config.seed)
    stored = groups if reuse.composition == "pool" else [earlier(group) for group in groups]
    for group, *columns in zip(stored, fresh.advantages, fresh.priorities, strict=True):
        store.keep(group, *columns)
    rows, combine = (pool_rows, pooled) if reuse.composition == "pool" else (replay_rows, anchored)
    store.evict(3)
    return combine(fresh, store.draw(step, 3, rows(fresh, reuse))).batch


def earlier(group):
    """The same outcome in an earlier step, so that the store has something to offer."""
    summary = dataclasses.replace(group.summary, group_id=group.summary.group_id + 1000)
    return dataclasses.replace(group, summary=summary)


def assert_same_batch(got, wanted):
    for field in dataclasses.fields(TrainBatch):
        own, other = getattr(got, field.name), getattr(wanted, field.name)
        if isinstance(other, np.ndarray):
            assert own.dtype == other.dtype and np.array_equal(own, other), field.name
        elif field.name == "handles":
            assert len(own) == len(other)
            assert all(a is b for a, b in zip(own, other, strict=True))
        else:
            assert own == other, field.name


@pytest.mark.parametrize("method", IDLE)
@pytest.mark.parametrize("kind", KINDS)
@given(any_groups)
def test_a_step_without_or_with_an_idle_method_is_plain_grpo(kind, method, groups):
    config = settings(kind, **IDLE[method])
    assert_same_batch(composed(groups, config), plain_grpo(groups, kind, 4, 3))


@pytest.mark.parametrize("method", NOTHING_TO_ACT_ON)
@given(complete_groups, st.sampled_from(KINDS))
def test_a_method_with_nothing_to_act_on_changes_nothing(method, groups, kind):
    config = settings(kind, **NOTHING_TO_ACT_ON[method])
    assert_same_batch(composed(groups, config), plain_grpo(groups, kind, 4, 3))


class PlainEngine:
    """A tiny policy under AdamW in this process."""

    device = torch.device("cpu")

    def __init__(self, learning_rate):
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            initializer_range=0.2,
        )
        self.policy = PolicyModel(Qwen3ForCausalLM(config), temperature=1.0, chunk=64)
        self._adam = torch.optim.AdamW(self.policy.parameters(), lr=learning_rate)

    def __call__(self, *inputs, min_chunks):
        return self.policy(*inputs, min_chunks=min_chunks)

    def backward(self, loss, last):
        loss.backward()

    def step(self, learning_rate):
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self._adam.step()
        self._adam.zero_grad()
        return float(norm)


def three_steps():
    """Graded groups of three steps, with everything that a step may meet."""
    generator = np.random.default_rng(0)
    for step in (1, 2, 3):
        outcomes = generator.choice([0.0, 1.0, 0.25], (5, 6), p=[0.5, 0.4, 0.1])
        outcomes[4] = 1.0
        verdicts = [[scored(float(reward)) for reward in own] for own in outcomes]
        verdicts[0][2] = MISSING[0]
        finish = np.full(outcomes.shape, Finish.STOP)
        finish[1, 3], finish[2, :2] = Finish.ABORT, Finish.LENGTH
        groups = zip(verdicts, finish, strict=True)
        yield step, [graded_group(10 * step + i, *own, seed=step) for i, own in enumerate(groups)]


def train(config, batch_of):
    """Losses, norms and final weights of three real optimizer steps."""
    engine, learner, algorithm = PlainEngine(1e-2), config.learner, config.algorithm
    history = []
    for step, groups in three_steps():
        batch = batch_of(groups, step)
        ((shard,),) = plan_update(batch, 1, 1, step, algorithm.normalisation, LONGEST)
        rows = gather_rows(shard, shard.handles)
        minibatch = lay_out(rows, learner, engine.policy.chunks, lambda counts: counts)
        assert len(minibatch.micro_batches) > 1
        sums, norm = optimizer_step(engine, minibatch, None, None, algorithm, 1e-2)
        history.append((sums.loss, norm))
    return history, [p.detach().clone() for p in engine.policy.parameters()]


@pytest.fixture(scope="module", params=KINDS)
def oracle(request):
    """The advantage, and three steps of plain GRPO under it."""
    kind = request.param
    config = settings(kind)
    return kind, train(config, lambda groups, step: plain_grpo(groups, kind, step, step - 1))


@pytest.mark.parametrize("method", IDLE)
def test_losses_and_weights_of_three_real_steps_are_plain_grpos(oracle, method):
    kind, (losses, weights) = oracle
    config = settings(kind, **IDLE[method])
    got_losses, got_weights = train(
        config,
        lambda groups, step: dataclasses.replace(composed(groups, config, step), version=step - 1),
    )
    assert got_losses == losses and len(set(losses)) == 3
    assert all(torch.equal(*pair) for pair in zip(got_weights, weights, strict=True))
    before = list(PlainEngine(1e-2).policy.parameters())
    assert not any(torch.equal(*pair) for pair in zip(got_weights, before, strict=True))


def test_the_comparison_would_notice_a_last_bit():
    """One advantage moved by one float32 step is another run."""
    config = settings()

    def nudged(groups, step):
        batch = plain_grpo(groups, "grpo", step, step - 1)
        batch.advantage[0] = np.nextafter(batch.advantage[0], np.float32(np.inf))
        return batch

    plain = train(config, lambda groups, step: plain_grpo(groups, "grpo", step, step - 1))
    moved = train(config, nudged)
    assert not all(torch.equal(*pair) for pair in zip(plain[1], moved[1], strict=True))
