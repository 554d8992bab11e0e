import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rlvr_platform.allocation import embeddings
from rlvr_platform.allocation.embeddings import embed, ngram_counts, policy_means, sentence_means
from rlvr_platform.config.allocator import (
    NgramEmbedding,
    PolicyEmbedding,
    SentenceTransformerEmbedding,
)
from rlvr_platform.errors import InputError
from rlvr_platform.types import Prompt

VOCABULARY, WIDTH = 50, 7
MATRIX = torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(0))
NAME = "model.embed_tokens.weight"


def prompts(*tokens: list[int], texts: tuple[str, ...] = ()) -> list[Prompt]:
    texts = texts or ("",) * len(tokens)
    return [
        Prompt(i, text, np.array(t, np.int32), "", "train")
        for i, (t, text) in enumerate(zip(tokens, texts, strict=True))
    ]


def of_texts(*texts: str) -> list[Prompt]:
    return prompts(*[[0]] * len(texts), texts=texts)


THREE = prompts([3, 4, 4, 49], [0], [7, 3])


def expected_means() -> np.ndarray:
    return np.stack([MATRIX.double().numpy()[p.tokens].mean(axis=0) for p in THREE])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    other = {"lm_head.weight": torch.zeros(VOCABULARY, WIDTH), "model.norm.weight": torch.ones(7)}
    save_file({NAME: MATRIX, **other}, tmp_path / "model.safetensors")
    return tmp_path


def test_policy_rows_are_the_mean_of_the_tokens_embeddings(model):
    np.testing.assert_allclose(policy_means(THREE, model), expected_means(), atol=1e-6)


def test_rows_read_in_several_blocks_are_the_same(model, monkeypatch):
    whole = policy_means(THREE, model)
    monkeypatch.setattr(embeddings, "BLOCK_ROWS", 4)
    assert np.array_equal(policy_means(THREE, model), whole)


@pytest.mark.parametrize("name", ["transformer.wte.weight", "embed_tokens.weight"])
def test_a_sharded_model_is_read_through_its_index(tmp_path, name):
    save_file({"model.norm.weight": torch.ones(3)}, tmp_path / "a.safetensors")
    save_file({name: MATRIX.bfloat16()}, tmp_path / "b.safetensors")
    where = {"model.norm.weight": "a.safetensors", name: "b.safetensors"}
    index = {"metadata": {}, "weight_map": where}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    np.testing.assert_allclose(policy_means(THREE, tmp_path), expected_means(), atol=0.02)


def test_a_saved_transformers_model_is_read(tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": VOCABULARY}
    policy = LlamaForCausalLM(LlamaConfig(**sizes, **heads, tie_word_embeddings=True))
    policy.save_pretrained(tmp_path)
    matrix = policy.get_input_embeddings().weight.detach().double().numpy()
    expected = np.stack([matrix[p.tokens].mean(axis=0) for p in THREE])
    np.testing.assert_allclose(policy_means(THREE, tmp_path), expected, atol=1e-7)


@pytest.mark.parametrize("config", [PolicyEmbedding(), NgramEmbedding(dimension=32)])
def test_rows_have_length_one(model, config):
    many = prompts([3, 4], [5], [6, 7], [8], texts=("one", "two apples", "three pears", "four"))
    rows = embed(config, many, model)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


def test_equal_prompts_give_zero_rows_instead_of_nan(model):
    assert not embed(PolicyEmbedding(), prompts([3, 4], [4, 3]), model).any()


def test_a_template_that_all_prompts_share_does_not_matter(model):
    bare = prompts([3, 4], [5, 6], [7, 8])
    wrapped = prompts(*[[1, 2, *p.tokens] for p in bare])
    np.testing.assert_allclose(
        embed(PolicyEmbedding(), wrapped, model), embed(PolicyEmbedding(), bare, model), atol=1e-5
    )


def refusal(call) -> str:
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def test_a_token_beyond_the_matrix_is_refused(model):
    message = refusal(lambda: policy_means(prompts([2, VOCABULARY]), model))
    assert f"token {VOCABULARY}" in message
    assert f"{VOCABULARY} rows" in message


def test_a_folder_without_safetensors_is_refused(tmp_path):
    message = refusal(lambda: policy_means(THREE, tmp_path))
    assert "neither model.safetensors.index.json nor model.safetensors" in message
    assert "allocator.embedding.kind=ngrams" in message


def test_a_model_without_a_known_embedding_name_is_refused(tmp_path):
    save_file({"gpt.embed_in.weight": MATRIX}, tmp_path / "model.safetensors")
    assert "0 tensors are called *embed_tokens" in refusal(lambda: policy_means(THREE, tmp_path))


def test_a_damaged_file_and_a_missing_shard_are_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"nothing of use")
    refusal(lambda: policy_means(THREE, tmp_path))
    index = {"weight_map": {NAME: "gone.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "gone.safetensors is missing" in refusal(lambda: policy_means(THREE, tmp_path))


def test_grams_are_counted_with_their_sign():
    config = NgramEmbedding(n=2, dimension=1009)
    once, twice = ngram_counts(config, ["abab", "abababab"])
    places = np.flatnonzero(once)
    assert sorted(abs(once[places])) == [1, 2]
    assert sorted(abs(twice[places])) == [3, 4]
    assert np.array_equal(np.sign(once), np.sign(twice))


def test_hashes_are_the_same_in_every_process_and_differ_between_seeds():
    counts = ngram_counts(NgramEmbedding(dimension=16), ["12+34="])[0]
    assert counts.tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    other = ngram_counts(NgramEmbedding(dimension=16, seed=1), ["12+34="])[0]
    assert counts.tolist() != other.tolist()


def test_texts_with_grams_in_common_lie_closer():
    texts = of_texts("what is 12 plus 13", "what is 12 plus 14", "name the capital of France")
    near, far = (
        embed(NgramEmbedding(), texts, "")[0] @ row
        for row in embed(NgramEmbedding(), texts, "")[1:]
    )
    assert near > far


def test_texts_shorter_than_a_gram_still_count():
    assert ngram_counts(NgramEmbedding(n=5), ["ab", ""]).any(axis=1).all()


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = {"[PAD]": 0, "[UNK]": 1, "one": 2, "two": 3, "three": 4}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(tmp_path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=5, intermediate_size=8, **sizes)).save_pretrained(tmp_path)
    return tmp_path


def test_sentence_rows_are_the_mean_of_the_encoders_states(encoder):
    from transformers import AutoModel

    model = AutoModel.from_pretrained(encoder).eval()
    config = SentenceTransformerEmbedding(path=str(encoder), batch_size=2)
    ids = {"one": [2], "two three two": [3, 4, 3], "three two": [4, 3]}
    with torch.no_grad():
        expected = np.stack(
            [model(torch.tensor([i])).last_hidden_state[0].mean(0).numpy() for i in ids.values()]
        )
    np.testing.assert_allclose(sentence_means(config, list(ids)), expected, atol=1e-5)
    rows = embed(config, of_texts(*ids), "")
    np.testing.assert_allclose(
        rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5
    )


def test_long_texts_are_cut(encoder):
    config = SentenceTransformerEmbedding(path=str(encoder), max_tokens=2)
    long, cut = sentence_means(config, ["one two three three", "one two"])
    np.testing.assert_allclose(long, cut, atol=1e-6)


@pytest.mark.parametrize("path", ["./nowhere", "/no/such/folder"])
def test_an_encoder_that_is_not_there_is_refused(path):
    config = SentenceTransformerEmbedding(path=path)
    assert "allocator.embedding.path" in refusal(lambda: sentence_means(config, ["a"]))


def test_a_folder_without_an_encoder_is_refused(tmp_path):
    config = SentenceTransformerEmbedding(path=str(tmp_path))
    assert str(tmp_path) in refusal(lambda: sentence_means(config, ["a"]))
