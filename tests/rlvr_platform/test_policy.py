"""Oracle: transformers' own logits over the full vocabulary, one row at a time."""

import pytest
import torch
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rlvr_platform.errors import InputError
from rlvr_platform.policy import PolicyModel, check_architecture

V = 97
SIZES = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {}),
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "gemma2": (Gemma2Config, Gemma2ForCausalLM, {"final_logit_softcapping": 3.0}),
    "cohere": (CohereConfig, CohereForCausalLM, {"logit_scale": 0.3}),
    "granite": (GraniteConfig, GraniteForCausalLM, {"logits_scaling": 0.25}),
}
ROWS = [torch.arange(n) * 31 % V for n in (9, 7, 4, 1)]


def build(family, tied=True, **more):
    torch.manual_seed(0)
    config_class, model_class, special = FAMILIES[family]
    config = config_class(**SIZES, tie_word_embeddings=tied, **special, **more)
    return model_class(config).float().eval()


def own_logprobs(model, rows, temperature=1.0):
    """[N], [N]: log-probability of, and entropy at, every token but the first of each row."""
    logprobs, entropies = [], []
    for row in rows:
        scores = (model(row[None]).logits[0, :-1].double() / temperature).log_softmax(-1)
        logprobs.append(scores.gather(-1, row[1:, None]).squeeze(-1))
        entropies.append(-(scores.exp() * scores).sum(-1))
    return torch.cat(logprobs), torch.cat(entropies)


def padded_inputs(rows):
    width = max(len(row) for row in rows)
    tokens = torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])
    positions = torch.arange(width).expand(len(rows), -1)
    predict = torch.cat([i * width + torch.arange(len(r) - 1) for i, r in enumerate(rows)])
    return tokens, positions, predict, torch.cat([row[1:] for row in rows])


def packed_inputs(rows):
    positions = torch.cat([torch.arange(len(row)) for row in rows])
    last = torch.cat([torch.arange(len(row)) == len(row) - 1 for row in rows])
    predict = torch.arange(len(positions))[~last]
    return torch.cat(rows)[None], positions[None], predict, torch.cat([row[1:] for row in rows])


LAYOUTS = {"padded": padded_inputs, "packed": packed_inputs}


@pytest.mark.parametrize("chunk", [1, 5, 1000])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_equals_transformers_full_logits(family, tied, layout, chunk):
    model = build(family, tied)
    logprobs, entropy = PolicyModel(model, 1.0, chunk)(*LAYOUTS[layout](ROWS))
    expected, expected_entropy = own_logprobs(model, ROWS)
    assert logprobs.dtype == entropy.dtype == torch.float32
    assert (logprobs - expected).abs().max() < 1e-5
    assert (entropy - expected_entropy).abs().max() < 1e-5


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", ["gemma2", "cohere", "granite"])
def test_postprocessed_logits_are_respected(family, layout):
    model = build(family).double()
    logprobs, _ = PolicyModel(model, 1.0, 5)(*LAYOUTS[layout](ROWS))
    assert (logprobs - own_logprobs(model, ROWS)[0]).abs().max() < 1e-9


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_attention_implementations_keep_packed_rows_apart(attention):
    model = build("qwen3", attn_implementation=attention)
    logprobs, _ = PolicyModel(model, 1.0, 100)(*packed_inputs(ROWS))
    assert (logprobs - own_logprobs(model, ROWS)[0]).abs().max() < 1e-5


def test_temperature_gives_the_sampling_distribution():
    model = build("qwen3")
    logprobs, entropy = PolicyModel(model, 0.6, 5)(*padded_inputs(ROWS))
    expected, expected_entropy = own_logprobs(model, ROWS, temperature=0.6)
    assert (logprobs - expected).abs().max() < 1e-5
    assert (entropy - expected_entropy).abs().max() < 1e-5


def test_bfloat16_models_are_scored_in_float32():
    model = build("qwen3").bfloat16()
    logprobs, _ = PolicyModel(model, 1.0, 5)(*padded_inputs(ROWS))
    assert logprobs.dtype == torch.float32
    assert (logprobs - own_logprobs(model, ROWS)[0]).abs().max() < 0.1


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_equals_the_unchunked_gradient(layout, tied):
    model = build("llama", tied).double()
    weights = torch.linspace(-1, 1, sum(len(row) - 1 for row in ROWS), dtype=torch.float64)
    logprobs, _ = PolicyModel(model, 1.0, 4)(*LAYOUTS[layout](ROWS))
    ours = gradients(model, weights @ logprobs)
    theirs = gradients(model, weights @ own_logprobs(model, ROWS)[0])
    for got, wanted in zip(ours, theirs, strict=True):
        assert torch.allclose(got, wanted, atol=1e-10)


def saved_elements(policy, inputs):
    """Elements of float tensors saved for backward whose last axis is the vocabulary."""
    saved = []

    def pack(tensor):
        if tensor.is_floating_point() and tensor.shape[-1] == V:
            saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        policy(*inputs)
    return sum(saved)


def test_no_logits_beyond_one_chunk_are_saved_for_backward():
    model, chunk = build("qwen3", tied=False), 8
    long_rows = [torch.arange(60) % V] * 4
    assert saved_elements(PolicyModel(model, 1.0, chunk), padded_inputs(long_rows)) <= chunk * V
    unchunked = saved_elements(PolicyModel(model, 1.0, 1000), padded_inputs(long_rows))
    assert unchunked >= 4 * 59 * V, "the measurement must see logits where they are saved"


def test_every_head_call_sees_at_most_one_chunk_forward_and_backward():
    model = build("qwen3", tied=False)
    heights = []
    model.lm_head.register_forward_hook(lambda module, args, out: heights.append(len(out)))
    logprobs, _ = PolicyModel(model, 1.0, 8)(*padded_inputs([torch.arange(60) % V] * 2))
    logprobs.sum().backward()
    assert max(heights) <= 8
    assert sum(heights) == 2 * (2 * 59), "each chunk is computed once and recomputed once"


@pytest.mark.parametrize("targets", [0, 2, 17])
def test_min_chunks_keeps_head_calls_in_step_and_changes_nothing(targets):
    model = build("qwen3").double()
    tokens, positions, predict, wanted = packed_inputs(ROWS)
    inputs = (tokens, positions, predict[:targets], wanted[:targets])
    policy = PolicyModel(model, 1.0, 8)
    calls = []
    model.lm_head.register_forward_hook(lambda *_: calls.append(1))
    more, entropy = policy(*inputs, min_chunks=6)
    assert len(calls) == 6 and len(more) == len(entropy) == targets
    plain, _ = policy(*inputs)
    for got, same in zip(gradients(model, more.sum()), gradients(model, plain.sum()), strict=True):
        assert torch.allclose(got, same, atol=1e-12)


def test_no_targets_still_reaches_every_parameter_with_a_zero_gradient():
    model = build("qwen3", tied=False)
    nothing = torch.zeros(0, dtype=torch.int64)
    one = torch.zeros((1, 1), dtype=torch.int64)
    logprobs, _ = PolicyModel(model, 1.0, 8)(one, one, nothing, nothing)
    assert all((gradient == 0).all() for gradient in gradients(model, logprobs.sum()))


def test_training_mode_has_no_dropout():
    config = GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    policy = PolicyModel(model, 1.0, 8).train()
    logprobs, _ = policy(*padded_inputs(ROWS))
    assert (logprobs - own_logprobs(model.eval(), ROWS)[0]).abs().max() < 1e-5


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_known_architectures_pass_the_check(family, layout):
    check_architecture(PolicyModel(build(family), 0.7, 4), layout)


def test_unknown_postprocessing_of_logits_is_refused():
    model = build("llama")
    own_forward = model.forward

    def doubled(*args, **kwargs):
        output = own_forward(*args, **kwargs)
        output.logits = output.logits * 2
        return output

    model.forward = doubled
    with pytest.raises(InputError, match=r"LlamaForCausalLM.*nats away from the model's own"):
        check_architecture(PolicyModel(model, 1.0, 8), "padded")


def test_an_architecture_that_mixes_packed_rows_is_refused():
    config = GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=4, initializer_range=0.5)
    torch.manual_seed(0)
    policy = PolicyModel(GPT2LMHeadModel(config), 1.0, 8)
    decoder = policy.causal_lm.get_decoder()
    own_forward = decoder.forward

    def with_a_mask(input_ids, **kwargs):
        return own_forward(input_ids, **{**kwargs, "attention_mask": torch.ones_like(input_ids)})

    decoder.forward = with_a_mask
    check_architecture(policy, "padded")
    with pytest.raises(InputError, match="packed"):
        check_architecture(policy, "packed")


def test_a_model_without_a_head_is_refused():
    with pytest.raises(InputError, match="no output head"):
        PolicyModel(build("llama").model, 1.0, 8)
