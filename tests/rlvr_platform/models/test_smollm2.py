import json

import pytest

from rlvr_platform.config.data import PromptFormat
from rlvr_platform.config.model import SmolLM2Model
from rlvr_platform.data.records import Record
from rlvr_platform.data.tokenizer import encode, load_tokenizer, render
from rlvr_platform.models import resolve_model

pytest.importorskip("gguf", reason="needs the extra smollm2")


@pytest.mark.slow
def test_the_converted_model_answers_a_question_through_its_chat_template():
    import torch
    from transformers import AutoModelForCausalLM

    folder = resolve_model(SmolLM2Model())
    config = json.loads((folder / "config.json").read_text())
    assert "quantization_config" not in config
    tokenizer = load_tokenizer(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    chat = PromptFormat(template="chat")
    prompt = encode(render(Record("What is 7 + 5?", "12", ""), chat, tokenizer), chat, tokenizer)
    out = model.generate(torch.tensor([prompt.tolist()]), max_new_tokens=40, do_sample=False)
    answer = tokenizer.decode(out[0, len(prompt) :])
    assert "12" in answer
    assert answer.endswith(tokenizer.eos_token)
