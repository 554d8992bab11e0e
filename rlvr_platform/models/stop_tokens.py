"""Which tokens end a completion."""

from __future__ import annotations

from typing import Any

from rlvr_platform.errors import InputError


def stop_tokens(model: str, tokenizer: Any) -> list[int]:
    """Every end token that the model's generation settings or its tokenizer name.

    Chat models often end a turn with another token than the tokenizer's own end token.
    Raises InputError when there is none: no completion would ever end by itself.
    """
    from transformers import GenerationConfig

    try:
        stated = GenerationConfig.from_pretrained(model).eos_token_id
    except OSError:
        stated = None  # the folder has no generation settings
    tokens = {*(stated if isinstance(stated, list) else [stated]), tokenizer.eos_token_id}
    tokens.discard(None)
    if not tokens:
        raise InputError(
            f"{model} names no end token",
            "eos_token_id in generation_config.json, or eos_token in tokenizer_config.json",
            "add one to the model's folder",
        )
    return sorted(tokens)
