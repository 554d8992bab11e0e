import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from rlvr_platform.config.data import PromptFormat
from rlvr_platform.data.records import Record
from rlvr_platform.data.tokenizer import encode, load_tokenizer, render
from rlvr_platform.errors import InputError

PLAIN, CHAT = PromptFormat(), PromptFormat(template="chat")
TEMPLATE = (
    "<s>{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
RECORD = Record("2+2", "4", "here")


@pytest.fixture
def tokenizer():
    """Characters with a BOS token that plain encoding adds by itself."""
    vocabulary = {c: i for i, c in enumerate(["<s>", *map(chr, range(32, 127)), "\n"])}
    rust = Tokenizer(models.WordLevel(vocabulary))
    rust.add_special_tokens(["<s>"])
    rust.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    rust.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    return PreTrainedTokenizerFast(tokenizer_object=rust, bos_token="<s>", chat_template=TEMPLATE)


def test_plain_is_the_text_with_the_instruction_on_its_own_line(tokenizer):
    assert render(RECORD, PLAIN, tokenizer) == "2+2"
    assert render(RECORD, PromptFormat(instruction="Think."), tokenizer) == "2+2\nThink."


def test_chat_goes_through_the_template_and_asks_for_an_answer(tokenizer):
    assert render(RECORD, CHAT, tokenizer) == "<s>[user]2+2[assistant]"
    format = PromptFormat(template="chat", system="Be kind.", instruction="Think.")
    assert render(RECORD, format, tokenizer) == "<s>[system]Be kind.[user]2+2\nThink.[assistant]"


@pytest.mark.parametrize("format", [PLAIN, CHAT])
def test_there_is_exactly_one_bos_with_and_without_a_template(tokenizer, format):
    tokens = encode(render(RECORD, format, tokenizer), format, tokenizer)
    assert tokens.dtype == np.int32
    assert (tokens == tokenizer.bos_token_id).sum() == 1
    assert tokens[0] == tokenizer.bos_token_id


def test_chat_tokens_are_those_of_the_template_itself(tokenizer):
    tokens = encode(render(RECORD, CHAT, tokenizer), CHAT, tokenizer)
    direct = tokenizer.apply_chat_template(
        [{"role": "user", "content": RECORD.text}], add_generation_prompt=True, return_dict=False
    )
    assert tokens.tolist() == direct


def test_a_tokenizer_without_chat_template_is_an_error(tokenizer):
    tokenizer.chat_template = None
    with pytest.raises(InputError, match=r"no chat template"):
        render(RECORD, CHAT, tokenizer)


def test_a_template_that_refuses_a_role_is_an_error(tokenizer):
    tokenizer.chat_template = "{{ raise_exception('System role not supported') }}"
    with pytest.raises(InputError, match=r"System role not supported"):
        render(RECORD, PromptFormat(template="chat", system="x"), tokenizer)


def test_text_outside_the_vocabulary_is_an_error(tokenizer):
    with pytest.raises(InputError, match=r"cannot encode 'é'"):
        encode("é", PLAIN, tokenizer)


def test_a_saved_tokenizer_loads_and_a_folder_without_one_is_an_error(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path / "good")
    loaded = load_tokenizer(tmp_path / "good")
    assert loaded.encode("2+2") == tokenizer.encode("2+2")
    (tmp_path / "bad").mkdir()
    with pytest.raises(InputError, match=r"cannot load a tokenizer"):
        load_tokenizer(tmp_path / "bad")
