"""The one place where a task's text becomes tokens: chat template and tokenisation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rlvr_platform.config.data import PromptFormat
from rlvr_platform.data.records import Record
from rlvr_platform.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(model: Path | str, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a model folder or hub name. Raises InputError when it has none."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise InputError(
            f"cannot load a tokenizer from {model}: {error}",
            "a model folder with tokenizer files, or a hub name that this machine can reach",
        ) from None


def render(record: Record, format: PromptFormat, tokenizer: PreTrainedTokenizerBase) -> str:
    """The text that the policy reads: instruction on a line of its own, chat template applied."""
    task = "\n".join(filter(None, [record.text, format.instruction]))
    if format.template == "plain":
        return task
    if not tokenizer.chat_template:
        raise InputError(
            "data.format.template is chat, but the model's tokenizer has no chat template",
            "an instruction-tuned model",
            "set data.format.template=plain",
        )
    return _through_template(task, format.system, tokenizer)


def _through_template(task: str, system: str, tokenizer: PreTrainedTokenizerBase) -> str:
    from jinja2 import TemplateError

    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": task})
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except TemplateError as error:
        raise InputError(
            f"the model's chat template refuses the prompt: {error}",
            fix="templates without a system role need data.format.system empty",
        ) from None
    assert isinstance(text, str)
    return text


def encode(text: str, format: PromptFormat, tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """int32 [P] tokens of a rendered text. Raises InputError for text it has no tokens for.

    A chat template writes the special tokens itself, so none are added to its text.
    """
    try:
        tokens = tokenizer.encode(text, add_special_tokens=format.template == "plain")
    # The Rust tokenizers raise bare Exception.
    except Exception as error:
        raise InputError(f"the model's tokenizer cannot encode {text!r}: {error}") from None
    return np.asarray(tokens, dtype=np.int32)
