"""From a source to the prompts of a run: rendered, tokenised, filtered by length in tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlvr_platform.config.data import MixtureSource, PromptFormat, Source
from rlvr_platform.data.records import Record
from rlvr_platform.data.sources import load_records
from rlvr_platform.data.tokenizer import encode, render
from rlvr_platform.errors import InputError
from rlvr_platform.types import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts that fit, in source order."""

    prompts: tuple[Prompt, ...]
    """Never empty; `Prompt.index` is the position among all records of the source."""
    too_long: int
    """Records left out for having more than the allowed tokens."""


def load_prompts(
    source: Source,
    name: str,
    format: PromptFormat,
    tokenizer: PreTrainedTokenizerBase,
    max_prompt_tokens: int,
) -> PromptSet:
    """Read, render and tokenise `source`; prompts above `max_prompt_tokens` are left out, counted.

    Raises InputError when the source cannot be used or nothing fits.
    """
    if isinstance(source, MixtureSource):
        return _load_mixture(source, format, tokenizer, max_prompt_tokens)
    everything = [
        _prompt(index, record, name, format, tokenizer)
        for index, record in enumerate(load_records(source))
    ]
    fitting = tuple(p for p in everything if len(p.tokens) <= max_prompt_tokens)
    if not fitting:
        lengths = [len(p.tokens) for p in everything]
        raise InputError(
            f"all {len(lengths)} prompts of {name} are too long: {min(lengths)} to "
            f"{max(lengths)} tokens",
            f"at most data.max_prompt_tokens={max_prompt_tokens}",
            f"set data.max_prompt_tokens to {max(lengths)} to keep them all",
        )
    return PromptSet(fitting, too_long=len(everything) - len(fitting))


def _load_mixture(
    mixture: MixtureSource,
    format: PromptFormat,
    tokenizer: PreTrainedTokenizerBase,
    max_prompt_tokens: int,
) -> PromptSet:
    """The parts one after the other; indices go on counting, sources are the parts' names."""
    prompts: list[Prompt] = []
    records = too_long = 0
    for name, part in mixture.parts.items():
        loaded = load_prompts(part, name, format, tokenizer, max_prompt_tokens)
        prompts += [replace(prompt, index=prompt.index + records) for prompt in loaded.prompts]
        records += len(loaded.prompts) + loaded.too_long
        too_long += loaded.too_long
    return PromptSet(tuple(prompts), too_long)


def _prompt(
    index: int,
    record: Record,
    name: str,
    format: PromptFormat,
    tokenizer: PreTrainedTokenizerBase,
) -> Prompt:
    text = render(record, format, tokenizer)
    try:
        tokens = encode(text, format, tokenizer)
    except InputError as error:
        raise InputError(f"{record.origin}: {error.got}", error.wanted, error.fix) from None
    return Prompt(index, text, tokens, record.gold, name, record.options, record.origin)
