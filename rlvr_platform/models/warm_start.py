"""Supervised training of the small arithmetic model, stopped while there is much left to learn."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rlvr_platform.config.data import ArithmeticSource
from rlvr_platform.config.model import ArithmeticModel
from rlvr_platform.data.arithmetic import distinct_tasks, draw_tasks
from rlvr_platform.data.records import Record
from rlvr_platform.errors import NumericalError

LEARNING_RATE = 1e-3
BATCH = 128
MAX_STEPS = 3000
EVALUATE_EVERY = 25
EVALUATED_PROMPTS = 512
MAX_NEW_TOKENS = 8
IGNORED = -100
"""Label of a position without loss (the convention of transformers)."""


def warm_start(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    config: ArithmeticModel,
    progress: Callable[[str], None],
) -> None:
    """Train on the default task mix until sampled accuracy on held-out tasks is in range.

    Stops at the first evaluation past one third of the way from `accuracy_low` to
    `accuracy_high`, so that sampling error leaves the truth inside the range.
    Raises NumericalError when an evaluation lands above `accuracy_high` or none
    reaches the range within MAX_STEPS.
    """
    families = ArithmeticSource().families
    heldout = distinct_tasks(families, EVALUATED_PROMPTS, config.seed, "test")
    batches = _batches(draw_tasks(families, config.seed, "train"), tokenizer)
    enough = config.accuracy_low + (config.accuracy_high - config.accuracy_low) / 3
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    started, accuracy = time.monotonic(), 0.0
    for step, batch in enumerate(itertools.islice(batches, MAX_STEPS), start=1):
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % EVALUATE_EVERY:
            continue
        accuracy = sampled_accuracy(model, tokenizer, heldout, config.seed)
        progress(
            f"warm start: step {step}, loss {loss.item():.3f}, held-out accuracy {accuracy:.1%} "
            f"(stops at {enough:.0%}), {time.monotonic() - started:.0f} s"
        )
        if accuracy >= enough:
            break
    if not config.accuracy_low <= accuracy <= config.accuracy_high:
        raise NumericalError(
            f"the warm start ended at a sampled accuracy of {accuracy:.1%}",
            f"between {config.accuracy_low:.0%} and {config.accuracy_high:.0%}",
            "widen model.accuracy_low and model.accuracy_high, or choose another model.seed",
        )


def _batches(
    tasks: Iterator[Record], tokenizer: PreTrainedTokenizerBase
) -> Iterator[dict[str, torch.Tensor]]:
    while True:
        yield collate(list(itertools.islice(tasks, BATCH)), tokenizer)


def collate(
    records: Sequence[Record], tokenizer: PreTrainedTokenizerBase
) -> dict[str, torch.Tensor]:
    """Right-padded int64 [B, L] inputs, mask and labels; loss on the answer and its end only."""
    prompts = [tokenizer.encode(record.text) for record in records]
    answers = [[*tokenizer.encode(record.gold), tokenizer.eos_token_id] for record in records]
    longest = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
    shape = (len(records), longest)
    inputs = torch.full(shape, tokenizer.pad_token_id)
    labels, mask = torch.full(shape, IGNORED), torch.zeros(shape, dtype=torch.int64)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        end = len(prompt) + len(answer)
        inputs[row, :end] = torch.tensor(prompt + answer)
        labels[row, len(prompt) : end] = torch.tensor(answer)
        mask[row, :end] = 1
    return {"input_ids": inputs, "attention_mask": mask, "labels": labels}


@torch.no_grad()
def sampled_accuracy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    records: Sequence[Record],
    seed: int,
) -> float:
    """Share of tasks answered exactly, one completion each, sampled at temperature 1."""
    batch = tokenizer([r.text for r in records], return_tensors="pt", padding_side="left", padding=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        out = model.generate(
            **batch, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=MAX_NEW_TOKENS
        )
    answers = tokenizer.batch_decode(
        out[:, batch["input_ids"].shape[1] :], skip_special_tokens=True
    )
    return sum(a == r.gold for a, r in zip(answers, records, strict=True)) / len(records)
