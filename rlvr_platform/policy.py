"""The policy as the learner sees it: log-probabilities of given tokens, in bounded memory."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PretrainedConfig, PreTrainedModel

from rlvr_platform.batching.micro_batches import MicroBatch, micro_batches
from rlvr_platform.batching.rows import Rows
from rlvr_platform.errors import InputError


class PolicyModel(nn.Module):
    """A Hugging Face causal LM that scores tokens under its sampling distribution.

    Parameters are named `causal_lm.*`. Only submodules are called, so sharded parameters
    (DeepSpeed ZeRO-3) are gathered where they are used. Dropout is switched off: the engine
    samples without it, and policy and behaviour must be one distribution.
    """

    def __init__(self, causal_lm: PreTrainedModel, temperature: float, chunk: int) -> None:
        """`temperature` is the sampling temperature (with top_p 1); `chunk` is how many
        positions have logits at one time.

        Raises InputError when the model has no output head.
        """
        super().__init__()
        if causal_lm.get_output_embeddings() is None:
            raise InputError(f"{type(causal_lm).__name__} has no output head", "a causal LM")
        self.causal_lm = causal_lm
        self.temperature = temperature
        self.chunk = chunk
        _disable_dropout(causal_lm)

    def chunks(self, targets: int) -> int:
        """Head calls that `forward` makes for this many targets; at least one."""
        return max(1, -(-targets // self.chunk))

    def forward(
        self,
        tokens: Tensor,
        position_ids: Tensor,
        predict: Tensor,
        targets: Tensor,
        segments: Tensor | None = None,
        min_chunks: int = 1,
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities [N] with gradient and entropies [N] without, nats, float32.

        tokens, position_ids: int64 [b, t]; rows begin where positions restart, and whatever
        follows a row is hidden by causality, so no attention mask is needed. predict: int64 [N],
        index in [b * t] of the token before each target. targets: int64 [N] token ids.
        segments: int64 [b, t] where rows share a prompt, see `MicroBatch.segments`.
        min_chunks: ZeRO-3 gathers the head at every call, so all ranks must make as many calls
        as the rank with the most targets.
        """
        hidden = self.causal_lm.get_decoder()(
            input_ids=tokens,
            position_ids=position_ids,
            attention_mask=None if segments is None else tree_mask(segments),
            use_cache=False,
        ).last_hidden_state.flatten(0, 1)
        count, chunks = len(targets), max(self.chunks(len(targets)), min_chunks)
        if count < chunks:
            predict, targets = (F.pad(index, (0, chunks - count)) for index in (predict, targets))
        score = self._score
        if chunks > 1:
            # A single chunk is within the bound as it is: recomputing it would save nothing.
            score = partial(checkpoint, self._score, use_reentrant=False, preserve_rng_state=False)
        predicting = hidden.index_select(0, predict).tensor_split(chunks)
        scored = list(map(score, predicting, targets.tensor_split(chunks)))
        logprobs, entropy = (torch.cat(column)[:count] for column in zip(*scored, strict=True))
        return logprobs, entropy

    def _score(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """One chunk: hidden [c, H] and targets [c] to log-probabilities [c], entropies [c]."""
        logits = self.causal_lm.get_output_embeddings()(hidden)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        logits = _postprocess(logits, self.causal_lm.config.get_text_config()) / self.temperature
        normaliser = logits.logsumexp(-1)
        logprobs = logits.gather(-1, targets[:, None]).squeeze(-1) - normaliser
        with torch.no_grad():
            entropy = normaliser - (logits.softmax(-1) * logits).sum(-1)
        return logprobs, entropy


def model_inputs(batch: MicroBatch, device: torch.device) -> tuple[Tensor | None, ...]:
    """The positional arguments of `PolicyModel.forward` for one micro-batch."""
    columns = (batch.tokens, batch.position_ids, batch.predict, batch.targets, batch.segments)
    return tuple(None if c is None else torch.from_numpy(c).to(device) for c in columns)


def tree_mask(segments: Tensor) -> Tensor:
    """bool [b, 1, t, t] from segments [b, t]: a token sees the prompt before it and its own row."""
    query, key = segments[:, :, None], segments[:, None, :]
    causal = torch.ones(segments.shape[1], segments.shape[1], device=segments.device).tril().bool()
    return (causal & ((key == 0) | (key == query)))[:, None]


def check_architecture(policy: PolicyModel, layout: str) -> None:
    """Prove on a few tokens that `policy` scores rows as the model itself does one at a time.

    Call it before parameters are sharded. Raises InputError for architectures that change their
    logits in a way unknown here, or that mix rows in the `layout`.
    """
    _check_windows(policy, layout)
    rows = _probe_rows(policy.causal_lm.config.get_text_config().vocab_size)
    device = policy.causal_lm.device
    with torch.no_grad():
        (batch,) = micro_batches(rows, layout, budget=64)
        ours = policy(*model_inputs(batch, device))[0]
        theirs = torch.cat([_own_logprobs(policy, rows, row) for row in np.unique(batch.row)])
    order = torch.from_numpy(np.argsort(batch.row, kind="stable")).to(device)
    gap = float((ours[order] - theirs).abs().max())
    tolerance = 1e-3 if policy.causal_lm.dtype == torch.float32 else 0.2
    if not gap <= tolerance:
        raise InputError(
            f"{type(policy.causal_lm).__name__} in the {layout} layout: log-probabilities are "
            f"{gap:.3g} nats away from the model's own",
            f"at most {tolerance:g} nats",
            "set learner.layout=padded, or learner.attention=sdpa; otherwise this architecture is "
            "not supported",
        )


def _check_windows(policy: PolicyModel, layout: str) -> None:
    """A mask for shared prompts replaces the model's own, also in layers with a sliding window."""
    kinds = set(getattr(policy.causal_lm.config.get_text_config(), "layer_types", None) or ())
    if layout == "shared_prompt" and kinds - {"full_attention"}:
        raise InputError(
            f"learner.layout=shared_prompt with layers of {', '.join(sorted(kinds))}",
            "full attention in every layer",
            "set learner.layout=padded",
        )


def _probe_rows(vocabulary: int) -> Rows:
    """Two rows behind one prompt of 4 tokens, and one row with a prompt of 3."""
    token = (np.arange(1, 15) * 7919 % vocabulary).astype(np.int32)
    parts = [token[:7], np.r_[token[:4], token[7:9]], token[9:14]]
    prompts, lengths = np.array([4, 4, 3]), np.array([len(part) for part in parts])
    within = np.concatenate([np.arange(length) for length in lengths])
    nothing = np.zeros(len(parts), np.float32)
    return Rows(
        tokens=np.concatenate(parts),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        trained=within >= np.repeat(prompts, lengths),
        behaviour=np.zeros(len(within), np.float32),
        advantage=nothing,
        weight=nothing,
        group=np.array([0, 0, 1], np.int32),
        prompt_length=prompts,
    )


def _own_logprobs(policy: PolicyModel, rows: Rows, row: int) -> Tensor:
    """Of the row's trained tokens, from the model's own full logits of that row alone."""
    own = slice(int(rows.offsets[row]), int(rows.offsets[row + 1]))
    tokens = rows.tokens[own].astype(np.int64)
    batch = torch.from_numpy(tokens)[None].to(policy.causal_lm.device)
    logits = policy.causal_lm(input_ids=batch, use_cache=False).logits[0, :-1].float()
    logprobs = (logits / policy.temperature).log_softmax(-1)
    chosen = logprobs.gather(-1, batch[0, 1:, None]).squeeze(-1)
    return chosen[torch.from_numpy(rows.trained[own][1:]).to(chosen.device)]


def _postprocess(logits: Tensor, config: PretrainedConfig) -> Tensor:
    """What architectures do to the head's output: Cohere, Falcon-H1, Granite scale; Gemma caps."""
    scale = (
        getattr(config, "logit_scale", 1.0)
        * getattr(config, "lm_head_multiplier", 1.0)
        / getattr(config, "logits_scaling", 1.0)
    )
    cap = getattr(config, "final_logit_softcapping", None)
    logits = logits if scale == 1.0 else logits * scale
    return logits if cap is None else (logits / cap).tanh() * cap


def _disable_dropout(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)
