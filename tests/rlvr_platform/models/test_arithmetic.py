import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlvr_platform.config.model import ArithmeticModel
from rlvr_platform.data.arithmetic import FAMILIES, distinct_tasks
from rlvr_platform.errors import ConfigError
from rlvr_platform.models import warm_start
from rlvr_platform.models.arithmetic import build_arithmetic, character_tokenizer, new_model

SMALL = ArithmeticModel(hidden_size=64, layers=1, heads=2, accuracy_low=0.001, accuracy_high=0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, lines = tmp_path_factory.mktemp("model"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm_start, "HEADROOM", 0.0)
        build_arithmetic(SMALL, folder, lines.append)
    assert "held-out accuracy" in lines[-1]
    return folder


def test_a_saved_tokenizer_gives_one_token_a_character_and_back(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for task in distinct_tasks(tuple(FAMILIES), 300, 0, "train"):
        tokens = tokenizer.encode(task.text + task.gold)
        assert len(tokens) == len(task.text + task.gold)
        assert tokenizer.decode(tokens) == task.text + task.gold
    assert tokenizer.decode([*tokenizer.encode("42"), tokenizer.eos_token_id]) == "42<eos>"


def test_pad_eos_and_characters_are_all_distinct_and_the_model_knows_them(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    assert len(set(tokenizer.get_vocab().values())) == len(tokenizer) == model.config.vocab_size
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id


def test_a_saved_model_loads_in_float32_with_tied_embeddings(folder):
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_the_default_model_has_a_few_million_parameters():
    assert 2e6 < new_model(ArithmeticModel(), character_tokenizer()).num_parameters() < 5e6


def test_initialisation_follows_its_seed_and_leaves_the_global_generator_alone():
    tokenizer = character_tokenizer()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second = (new_model(SMALL, tokenizer).state_dict() for _ in range(2))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[k], second[k]) for k in first)
    other = new_model(SMALL.model_copy(update={"seed": 1}), tokenizer).state_dict()
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_an_untrained_model_is_close_to_uniform():
    tokenizer = character_tokenizer()
    model = new_model(ArithmeticModel(), tokenizer)
    inputs = torch.tensor([tokenizer.encode("17+25=")])
    loss = model(input_ids=inputs, labels=inputs).loss
    assert abs(loss.item() - math.log(len(tokenizer))) < 0.3


@pytest.mark.parametrize("hidden, heads", [(256, 3), (66, 2)])
def test_heads_that_do_not_divide_the_width_evenly_are_refused(hidden, heads):
    with pytest.raises(ConfigError, match="even number of channels"):
        new_model(ArithmeticModel(hidden_size=hidden, heads=heads), character_tokenizer())
