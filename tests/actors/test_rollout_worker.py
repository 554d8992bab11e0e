from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import ray
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from actors.rollouts import RemoteRollouts
from rlvr_platform.config import ExperimentConfig
from rlvr_platform.types import Finish, GroupSummary, Prompt, RolloutGroup, Ticket

PROMPTS = ["12+34=", "7*8=", "90-15=", "1+2-3="]


def tickets(tokenizer: Any, n: int, seed: int) -> list[Ticket]:
    prompts = [
        Prompt(i, text, np.array(tokenizer.encode(text), np.int32), "", "test")
        for i, text in enumerate(PROMPTS)
    ]
    return [Ticket(i, 1, prompt, n, seed + 1000 * i) for i, prompt in enumerate(prompts)]


async def collect(
    rollouts: RemoteRollouts, wanted: list[Ticket], temperature: float
) -> list[tuple[GroupSummary, RolloutGroup]]:
    found = []
    async for groups in rollouts.stream(wanted, temperature):
        found += zip(groups.summaries, await groups.handle, strict=True)
    return sorted(found, key=lambda pair: pair[0].group_id)


@pytest.fixture(scope="module")
def tokenizer(tiny_model: str) -> Any:
    return AutoTokenizer.from_pretrained(tiny_model)


@pytest.fixture
def groups(
    rollouts: RemoteRollouts, tokenizer: Any, config: ExperimentConfig
) -> list[tuple[GroupSummary, RolloutGroup]]:
    temperature = config.rollout.temperature
    return asyncio.run(collect(rollouts, tickets(tokenizer, 6, seed=7), temperature))


def test_every_ticket_comes_back_with_its_siblings(groups: Any) -> None:
    assert [summary.group_id for summary, _ in groups] == [0, 1, 2, 3]
    assert all(summary.size == group.size == len(group.texts) == 6 for summary, group in groups)


def test_behaviour_logprobs_are_those_of_the_distribution_that_was_sampled(
    groups: Any, tiny_model: str, config: ExperimentConfig
) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    for _, group in groups:
        prompt = group.ticket.prompt.tokens
        for i in range(group.size):
            own = group.sibling(i)
            row = torch.tensor(np.concatenate([prompt, group.tokens[own]]).astype(np.int64))
            with torch.no_grad():
                logits = model(row[None]).logits[0, len(prompt) - 1 : -1]
            expected = (logits / config.rollout.temperature).log_softmax(-1)
            chosen = expected.gather(-1, row[len(prompt) :, None]).squeeze(-1).numpy()
            np.testing.assert_allclose(group.logprobs[own], chosen, atol=1e-4)


def test_a_completion_stops_at_an_end_token_or_at_the_limit(
    groups: Any, tokenizer: Any, config: ExperimentConfig
) -> None:
    reasons = set()
    for summary, group in groups:
        for i in range(group.size):
            tokens = group.tokens[group.sibling(i)]
            ended = tokens[-1] == tokenizer.eos_token_id
            assert tokenizer.eos_token_id not in tokens[:-1]
            assert group.finish[i] == (Finish.STOP if ended else Finish.LENGTH)
            assert ended or len(tokens) == config.rollout.max_new_tokens
            assert summary.lengths[i] == summary.trained_tokens[i] == len(tokens)
            reasons.add(int(group.finish[i]))
    assert Finish.STOP in reasons


def test_texts_are_the_tokens_without_the_end_token(groups: Any, tokenizer: Any) -> None:
    for _, group in groups:
        for i, text in enumerate(group.texts):
            kept = [t for t in group.tokens[group.sibling(i)] if t > tokenizer.eos_token_id]
            assert text == "".join(tokenizer.convert_ids_to_tokens(kept))


def test_the_same_ticket_gives_the_same_tokens_and_siblings_differ(
    rollouts: RemoteRollouts, tokenizer: Any, groups: Any, config: ExperimentConfig
) -> None:
    again = asyncio.run(
        collect(rollouts, tickets(tokenizer, 6, seed=7), config.rollout.temperature)
    )
    for (_, first), (_, second) in zip(groups, again, strict=True):
        np.testing.assert_array_equal(first.tokens, second.tokens)
        assert len({tuple(first.tokens[first.sibling(i)]) for i in range(6)}) > 1


def test_temperature_0_is_greedy(rollouts: RemoteRollouts, tokenizer: Any, tiny_model: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    for _, group in asyncio.run(collect(rollouts, tickets(tokenizer, 1, seed=0), 0.0)):
        prompt = torch.tensor(group.ticket.prompt.tokens.astype(np.int64))[None]
        with torch.no_grad():
            first = int(model(prompt).logits[0, -1].argmax())
        assert group.tokens[0] == first


def test_the_error_of_a_worker_reaches_the_consumer_as_it_is(
    rollouts: RemoteRollouts, tokenizer: Any
) -> None:
    async def scenario() -> None:
        stream = rollouts.stream(tickets(tokenizer, 6, seed=3), -1.0)
        async for _ in stream:
            raise AssertionError("a negative temperature gave rollouts")

    with pytest.raises(ray.exceptions.RayTaskError, match="temperature"):
        asyncio.run(scenario())
