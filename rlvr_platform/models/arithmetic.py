"""The small base model of the main job: a Qwen3 architecture that reads characters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rlvr_platform.config.model import ArithmeticModel
from rlvr_platform.data.arithmetic import ALPHABET
from rlvr_platform.errors import ConfigError
from rlvr_platform.models.warm_start import warm_start

PAD, EOS = "<pad>", "<eos>"
WINDOW = 256
"""Longest prompt plus completion the model takes, tokens."""


def build_arithmetic(
    config: ArithmeticModel, folder: Path, progress: Callable[[str], None]
) -> None:
    """Initialise, warm-start and save model and tokenizer in `folder`."""
    tokenizer = character_tokenizer()
    model = new_model(config, tokenizer)
    progress(f"warm-starting a model of {model.num_parameters() / 1e6:.1f}M parameters")
    warm_start(model, tokenizer, config, progress)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def character_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character; no BOS, no unknown token, nothing added around a text."""
    vocabulary = {token: i for i, token in enumerate([PAD, EOS, *ALPHABET])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        model_max_length=WINDOW,
        clean_up_tokenization_spaces=False,
    )


def new_model(config: ArithmeticModel, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A freshly initialised float32 model; the global random state stays as it was."""
    head_dim, rest = divmod(config.hidden_size, config.heads)
    if rest or head_dim % 2:
        raise ConfigError(
            f"model.hidden_size={config.hidden_size} over model.heads={config.heads} heads",
            "an even number of channels a head",
            "choose model.heads so that hidden_size / heads is 32, 64 or 128",
        )
    shape = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden_size,
        intermediate_size=3 * config.hidden_size,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads // 2 if config.heads % 2 == 0 else config.heads,
        head_dim=head_dim,
        max_position_embeddings=WINDOW,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return Qwen3ForCausalLM(shape)
