"""Everything that can be found wrong before a cluster is touched: model, prompts, gold answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlvr_platform.config.data import Source
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.data.prompts import load_prompts
from rlvr_platform.data.sampler import PromptSampler
from rlvr_platform.data.tokenizer import load_tokenizer
from rlvr_platform.errors import ConfigError, InputError
from rlvr_platform.evaluation.suites import Suite
from rlvr_platform.models.resolve import resolve_model
from rlvr_platform.models.stop_tokens import stop_tokens
from rlvr_platform.types import Prompt
from rlvr_platform.verifiers.gold import BadGold, check_gold
from rlvr_platform.verifiers.pool import VerifierPool

LISTED = 20
"""Bad gold answers named in a message; the rest are counted."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """What is learned from and what is held out."""

    prompts: Sequence[Prompt]
    suites: Sequence[Suite]

    def sampler(self, config: ExperimentConfig) -> PromptSampler:
        """A sampler over the prompts, at its beginning."""
        return PromptSampler(len(self.prompts), config.seed, config.data.shuffle)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Checked inputs of a run."""

    model: str
    """A Hugging Face folder, or a hub name."""
    data: Data


def prepare(config: ExperimentConfig, say: Say) -> Prepared:
    """Resolve the model, load and check the data. Raises InputError or ConfigError."""
    model = str(resolve_model(config.model, say))
    _check_window(config, model)
    data = _load(config, model, say)
    return Prepared(model, _check_gold(config, data, say))


def _check_window(config: ExperimentConfig, model: str) -> None:
    """The longest row must fit the model's positions, where the model states them."""
    try:
        content = json.loads(Path(model, "config.json").read_text(encoding="utf-8"))
    except OSError:
        return  # a hub name: the engine checks it when it has fetched the model
    window = content.get("max_position_embeddings")
    if window is not None and config.window > window:
        raise ConfigError(
            f"data.max_prompt_tokens + rollout.max_new_tokens = {config.longest_row} tokens, and "
            f"sync.probe_tokens + 1 = {config.sync.probe_tokens + 1}",
            f"both at most the model's window of {window}",
            "lower what is above it",
        )


def _load(config: ExperimentConfig, model: str, say: Say) -> Data:
    tokenizer = load_tokenizer(model, config.trust_remote_code)
    stop_tokens(model, tokenizer)
    data = config.data

    def prompts(source: Source, name: str) -> tuple[Prompt, ...]:
        loaded = load_prompts(source, name, data.format, tokenizer, data.max_prompt_tokens)
        left_out = f", {loaded.too_long} above {data.max_prompt_tokens} tokens left out"
        say(f"{name}: {len(loaded.prompts)} prompts{left_out if loaded.too_long else ''}")
        return loaded.prompts

    suites = [
        Suite(suite, prompts(suite.source, suite.name)[: suite.max_prompts])
        for suite in config.evaluation.suites
    ]
    return Data(prompts(data.train, "train"), suites)


def _check_gold(config: ExperimentConfig, data: Data, say: Say) -> Data:
    """Verify every gold answer against itself; stop or drop by `data.bad_gold`."""
    every = [data.prompts, *(suite.prompts for suite in data.suites)]
    with VerifierPool(config.verifier) as pool:
        bad = check_gold([prompt for prompts in every for prompt in prompts], pool)
    if not bad:
        return data
    listed = _listing(bad)
    if config.data.bad_gold == "stop":
        raise InputError(
            listed,
            "gold answers that verify against themselves",
            "mend them, choose another verifier, or set data.bad_gold=drop",
        )
    say(f"{listed}\n  dropped, as data.bad_gold says")
    gone = {(entry.source, entry.index) for entry in bad}
    suites = [replace(suite, prompts=_kept(suite.prompts, gone)) for suite in data.suites]
    return Data(_kept(data.prompts, gone), suites)


def _kept(prompts: Sequence[Prompt], gone: set[tuple[str, int]]) -> tuple[Prompt, ...]:
    kept = tuple(p for p in prompts if (p.source, p.index) not in gone)
    if not kept:
        raise InputError(
            f"no prompt of {prompts[0].source} has a gold answer that verifies",
            "at least one",
            "choose the verifier that fits these answers",
        )
    return kept


def _listing(bad: Sequence[BadGold]) -> str:
    lines = [f"  - {entry.where}: {entry.gold!r} ({entry.reason})" for entry in bad[:LISTED]]
    more = [f"  - and {len(bad) - LISTED} more"] if len(bad) > LISTED else []
    return "\n".join([f"{len(bad)} gold answers do not verify:", *lines, *more])
