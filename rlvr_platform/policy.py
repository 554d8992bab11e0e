"""The policy as the learner sees it: log-probabilities of given tokens, in bounded memory."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PretrainedConfig, PreTrainedModel

from rlvr_platform.batching.micro_batches import micro_batches
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
        min_chunks: int = 1,
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities [N] with gradient and entropies [N] without, nats, float32.

        tokens, position_ids: int64 [b, t]; rows begin where positions restart, and whatever
        follows a row is hidden by causality, so no attention mask is needed. predict: int64 [N],
        index in [b * t] of the token before each target. targets: int64 [N] token ids.
        min_chunks: ZeRO-3 gathers the head at every call, so all ranks must make as many calls
        as the rank with the most targets.
        """
        hidden = self.causal_lm.get_decoder()(
            input_ids=tokens, position_ids=position_ids, use_cache=False
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


def check_architecture(policy: PolicyModel, layout: str) -> None:
    """Prove on a few tokens that `policy` scores rows as the model itself does one at a time.

    Call it before parameters are sharded. Raises InputError for architectures that change their
    logits in a way unknown here, or that mix rows in the `layout` (padded or packed).
    """
    rows = _probe_rows(policy.causal_lm.config.get_text_config().vocab_size)
    device = policy.causal_lm.device
    with torch.no_grad():
        (batch,) = micro_batches(rows, layout, budget=64)
        columns = (batch.tokens, batch.position_ids, batch.predict, batch.targets)
        ours = policy(*(torch.from_numpy(column).to(device) for column in columns))[0]
        theirs = torch.cat([_own_logprobs(policy, rows, row) for row in np.unique(batch.row)])
    order = torch.from_numpy(np.argsort(batch.row, kind="stable")).to(device)
    gap = float((ours[order] - theirs).abs().max())
    tolerance = 1e-3 if policy.causal_lm.dtype == torch.float32 else 0.2
    if not gap <= tolerance:
        raise InputError(
            f"{type(policy.causal_lm).__name__} in the {layout} layout: log-probabilities are "
            f"{gap:.3g} nats away from the model's own",
            f"at most {tolerance:g} nats",
            "set learner.layout=padded if it is packed, or learner.attention=sdpa; otherwise "
            "this architecture is not supported",
        )


def _probe_rows(vocabulary: int) -> Rows:
    offsets = np.array([0, 9, 14])
    trained = np.ones(14, bool)
    trained[offsets[:-1]] = False
    return Rows(
        tokens=(np.arange(1, 15) * 7919 % vocabulary).astype(np.int32),
        offsets=offsets,
        trained=trained,
        behaviour=np.zeros(14, np.float32),
        advantage=np.zeros(2, np.float32),
        weight=np.zeros(2, np.float32),
    )


def _own_logprobs(policy: PolicyModel, rows: Rows, row: int) -> Tensor:
    """[length - 1] from the model's own full logits of one row alone."""
    tokens = rows.tokens[rows.offsets[row] : rows.offsets[row + 1]].astype(np.int64)
    batch = torch.from_numpy(tokens)[None].to(policy.causal_lm.device)
    logits = policy.causal_lm(input_ids=batch, use_cache=False).logits[0, :-1].float()
    logprobs = (logits / policy.temperature).log_softmax(-1)
    return logprobs.gather(-1, batch[0, 1:, None]).squeeze(-1)


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
