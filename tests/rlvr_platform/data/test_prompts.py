import json

import numpy as np
import pytest

from rlvr_platform.config.data import ArithmeticSource, JsonlSource, MixtureSource, PromptFormat
from rlvr_platform.data.prompts import load_prompts
from rlvr_platform.errors import InputError
from rlvr_platform.models.arithmetic import character_tokenizer

PLAIN = PromptFormat()
TEXTS = ["1+1=", "10+10=", "2+2=", "100+100="]


@pytest.fixture(scope="module")
def tokenizer():
    return character_tokenizer()


@pytest.fixture
def source(tmp_path):
    lines = [json.dumps({"prompt": text, "answer": "0"}) for text in TEXTS]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    return JsonlSource(path=str(tmp_path / "a.jsonl"))


def test_prompts_above_the_limit_are_left_out_and_counted(source, tokenizer):
    found = load_prompts(source, "a", PLAIN, tokenizer, max_prompt_tokens=4)
    assert [p.text for p in found.prompts] == ["1+1=", "2+2="]
    assert [p.index for p in found.prompts] == [0, 2]
    assert found.too_long == 2


@pytest.mark.parametrize("limit, kept", [(5, 2), (6, 3), (7, 3), (8, 4)])
def test_a_prompt_of_exactly_the_limit_is_kept(source, tokenizer, limit, kept):
    found = load_prompts(source, "a", PLAIN, tokenizer, limit)
    assert (len(found.prompts), found.too_long) == (kept, 4 - kept)


def test_nothing_that_fits_is_an_error_with_lengths_and_limit(source, tokenizer):
    with pytest.raises(InputError, match=r"4 to 8 tokens(.|\n)*max_prompt_tokens=3"):
        load_prompts(source, "a", PLAIN, tokenizer, max_prompt_tokens=3)


def test_tokens_are_int32_and_decode_to_the_text(tokenizer):
    found = load_prompts(ArithmeticSource(count=50), "train", PLAIN, tokenizer, 24)
    for prompt in found.prompts:
        assert prompt.tokens.dtype == np.int32
        assert tokenizer.decode(prompt.tokens) == prompt.text
        assert prompt.source == "train"


def test_text_that_the_model_cannot_read_names_its_line(tmp_path, tokenizer):
    (tmp_path / "a.jsonl").write_text('{"prompt": "what?", "answer": "0"}')
    source = JsonlSource(path=str(tmp_path / "a.jsonl"))
    with pytest.raises(InputError, match=r"a.jsonl line 1: the model's tokenizer cannot encode"):
        load_prompts(source, "a", PLAIN, tokenizer, 24)


def test_a_mixture_keeps_names_and_numbers_its_prompts_through(source, tokenizer):
    """Indices count every record, those left out included: they are stable under the limit."""
    sums = ArithmeticSource(count=3)
    found = load_prompts(
        MixtureSource(parts={"a": source, "b": sums}), "train", PLAIN, tokenizer, 6
    )
    alone = load_prompts(sums, "b", PLAIN, tokenizer, 6)
    assert [(p.source, p.index) for p in found.prompts] == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        *(("b", 4 + prompt.index) for prompt in alone.prompts),
    ]
    assert found.too_long == 1 + alone.too_long
