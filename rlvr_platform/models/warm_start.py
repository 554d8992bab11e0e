"""Supervised training of the small arithmetic model, ended with much left to learn."""

from __future__ import annotations

import contextlib
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
"""Batches that are drawn and sorted by length together."""
MAX_STEPS = 2000
EVALUATE_EVERY = 50
EVALUATED_PROMPTS = 512
MAX_NEW_TOKENS = 8
HEADROOM = 0.27
"""Accuracy that is trained in above the starting point, then hidden by softening."""
BISECTIONS = 7
MAX_THREADS = 4
"""A model this small gets slower on more."""
IGNORED = -100
"""Label of a position without loss (the convention of transformers)."""


def warm_start(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    config: ArithmeticModel,
    progress: Callable[[str], None],
) -> None:
    """Train on the default task mix, then soften the policy to a sampled accuracy in range.

    A policy that has just learned from clean answers is about as good as it is sure of itself,
    which leaves reinforcement learning little to find. So it learns HEADROOM more than asked
    for and then samples at a higher temperature, which becomes part of its weights.
    Raises NumericalError when it does not learn enough in MAX_STEPS or misses the range.
    """
    families = ArithmeticSource().families
    heldout = distinct_tasks(families, EVALUATED_PROMPTS, config.seed, "test")
    batches = _batches(draw_tasks(families, config.seed, "train"), tokenizer)
    target = config.accuracy_low + (config.accuracy_high - config.accuracy_low) / 3

    def accuracy() -> float:
        return sampled_accuracy(model, tokenizer, heldout, config.seed)

    with _few_threads():
        _learn(model, batches, target + HEADROOM, accuracy, progress)
        reached = _soften(model, target, accuracy)
    progress(f"warm start: softened to a held-out accuracy of {reached:.1%}")
    if not config.accuracy_low <= reached <= config.accuracy_high:
        raise NumericalError(
            f"the warm start ended at a sampled accuracy of {reached:.1%}",
            f"between {config.accuracy_low:.0%} and {config.accuracy_high:.0%}",
            "widen model.accuracy_low and model.accuracy_high, or choose another model.seed",
        )


def _learn(
    model: PreTrainedModel,
    batches: Iterator[dict[str, torch.Tensor]],
    enough: float,
    accuracy: Callable[[], float],
    progress: Callable[[str], None],
) -> None:
    """Supervised steps until `accuracy()` is at least `enough`."""
    optimizers, started, measured = _optimizers(model), time.monotonic(), 0.0
    for step, batch in enumerate(itertools.islice(batches, MAX_STEPS), start=1):
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if step % EVALUATE_EVERY:
            continue
        measured = accuracy()
        progress(
            f"warm start: step {step}, loss {loss.item():.3f}, held-out accuracy {measured:.1%} "
            f"(until {enough:.0%}), {time.monotonic() - started:.0f} s"
        )
        if measured >= enough:
            return
    raise NumericalError(
        f"the warm start reached a sampled accuracy of {measured:.1%} in {MAX_STEPS} steps",
        f"{enough:.1%}",
        "lower model.accuracy_low and model.accuracy_high, or make the model larger",
    )


def _soften(model: PreTrainedModel, target: float, accuracy: Callable[[], float]) -> float:
    """Divide the logits, by way of the last norm, until accuracy is near `target`; returns it."""
    weight = model.base_model.norm.weight
    sharp = weight.detach().clone()
    low, high, reached = 0.0, 1.0, 1.0
    for _ in range(BISECTIONS):
        scale = (low + high) / 2
        weight.data = sharp * scale
        reached = accuracy()
        low, high = (scale, high) if reached < target else (low, scale)
    return reached


@contextlib.contextmanager
def _few_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, MAX_THREADS))
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
