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

MATRIX_RATE = 0.03
OTHER_RATE = 3e-3
BATCH = 64
POOL = 4
MAX_STEPS = 2000
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
    optimizers = _optimizers(model)
    started, accuracy = time.monotonic(), 0.0
    for step, batch in enumerate(itertools.islice(batches, MAX_STEPS), start=1):
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
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


def _optimizers(model: PreTrainedModel) -> list[torch.optim.Optimizer]:
    """Muon on the matrices halves the steps that AdamW needs here; AdamW on the rest."""
    matrices: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        hidden = parameter.ndim == 2 and "embed_tokens" not in name
        (matrices if hidden else others).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=0.0),
        torch.optim.AdamW(others, lr=OTHER_RATE, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def _batches(
    tasks: Iterator[Record], tokenizer: PreTrainedTokenizerBase
) -> Iterator[dict[str, torch.Tensor]]:
    """Batches of tasks of like length, so that little is padding."""
    while True:
        pool = sorted(itertools.islice(tasks, POOL * BATCH), key=lambda t: len(t.text + t.gold))
        batches = [pool[i : i + BATCH] for i in range(0, len(pool), BATCH)]
        for batch in batches:
            yield collate(batch, tokenizer)


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
    batch = tokenizer(
        [r.text for r in records], return_tensors="pt", padding_side="left", padding=True
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        out = model.generate(
            **batch,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=MAX_NEW_TOKENS,
        )
    answers = tokenizer.batch_decode(
        out[:, batch["input_ids"].shape[1] :], skip_special_tokens=True
    )
    return sum(a == r.gold for a, r in zip(answers, records, strict=True)) / len(records)
