"""A DeepSpeed engine around the policy: gradients in, optimizer steps, weights out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actors.process_group import join
from actors.weights_only import weights_only
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.data.tokenizer import load_tokenizer
from rlvr_platform.errors import InputError, NumericalError
from rlvr_platform.policy import PolicyModel, check_architecture

CHECKPOINT_TAG = "state"
COLLECTIVE_ALLOWANCE_S = 60.0
GATHER_BYTES = 256 << 20
"""ZeRO-3 parameters are gathered in buckets of about this size on their way out."""


def deepspeed_config(config: ExperimentConfig) -> dict[str, Any]:
    """DeepSpeed's configuration; micro-batch counts are ours, so its own are all 1."""
    learner, optimizer = config.learner, config.learner.optimizer
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": optimizer.max_grad_norm,
        "bf16": {"enabled": learner.dtype == "bfloat16"},
        "zero_optimization": {"stage": learner.zero_stage},
        "zero_allow_untested_optimizer": True,
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": optimizer.learning_rate,
                "betas": [optimizer.beta1, optimizer.beta2],
                "eps": optimizer.eps,
                "weight_decay": optimizer.weight_decay,
                # DeepSpeed's own fused kernel would be compiled on first use, for minutes.
                "torch_adam": True,
            },
        },
    }


class DeepSpeedEngine:
    """One rank's share of the policy, its gradients and its optimizer."""

    def __init__(self, config: ExperimentConfig, model: str) -> None:
        """Initialise the process group and the engine; collective over all ranks."""
        import deepspeed

        _without_shared_buffer()
        gpu = config.cluster.device == "gpu"
        self.device = torch.device("cuda", 0) if gpu else torch.device("cpu")
        # Above the deadlines of whoever waits for a rank: they replace it, this ends the run.
        patience_s = max(config.learner.update_timeout_s, config.sync.timeout_s)
        limit = timedelta(seconds=patience_s + COLLECTIVE_ALLOWANCE_S)
        join("nccl" if gpu else "gloo", limit)
        deepspeed.init_distributed(timeout=limit, verbose=False)
        policy = load_policy(config, model, self.device)
        check_architecture(policy, config.learner.layout)
        self._engine, *_ = deepspeed.initialize(
            model=policy,
            model_parameters=[p for p in policy.parameters() if p.requires_grad],
            config=deepspeed_config(config),
        )
        self._world = torch.distributed.get_world_size()
        self._first = torch.distributed.get_rank() == 0
        self._sharded = config.learner.zero_stage == 3
        self._dtype = config.learner.dtype
        self._trust = config.trust_remote_code

    @property
    def policy(self) -> PolicyModel:
        """The wrapped policy, for its bookkeeping; call the engine to run it."""
        module: PolicyModel = self._engine.module
        return module

    @property
    def steps(self) -> int:
        """Optimizer steps taken since the start of the run; kept in DeepSpeed's checkpoints."""
        return int(self._engine.global_steps - self._engine.skipped_steps)

    def __call__(self, *inputs: Any, **options: Any) -> tuple[Tensor, Tensor]:
        return self._engine(*inputs, **options)

    def backward(self, loss: Tensor, last: bool) -> None:
        """Accumulate the gradient of a SUM over ranks; `last` closes the optimizer step.

        DeepSpeed averages over ranks, our losses carry a global denominator: scale back.
        """
        self._engine.set_gradient_accumulation_boundary(last)
        self._engine.backward(loss * self._world)

    def step(self, learning_rate: float) -> float:
        """Clip and step; returns the global gradient norm before clipping.

        Where the norm is not finite, nothing moves on any rank: DeepSpeed's sharded optimizers
        look at the norm first and drop the gradient, torch's own must not see it at all.
        """
        for group in self._engine.optimizer.param_groups:
            group["lr"] = learning_rate
        if hasattr(self._engine.optimizer, "_global_grad_norm"):
            self._engine.step()
            norm = float(self._engine.get_global_grad_norm())
            if not math.isfinite(norm) and self._engine.was_step_applied():
                raise NumericalError(
                    f"DeepSpeed took a step with the gradient norm {norm}",
                    "no such step, ever",
                    "resume from the last checkpoint; report this with the versions in use",
                )
            return norm
        norm = self._plain_gradient_norm()
        if math.isfinite(norm):
            self._engine.step()
        else:
            self._engine.zero_grad()
        return norm

    def _plain_gradient_norm(self) -> float:
        """Norm of the reduced gradients, where DeepSpeed steps torch's own optimizer."""
        gradients = [p.grad for p in self.policy.parameters() if p.grad is not None]
        return float(torch.nn.utils.get_total_norm(gradients))

    def most(self, counts: list[int]) -> list[int]:
        """Maximum over ranks of each count; collective."""
        tensor = torch.tensor(counts, device=self.device)
        torch.distributed.all_reduce(tensor, torch.distributed.ReduceOp.MAX)
        return [int(count) for count in tensor]

    def probe(self, tokens: np.ndarray) -> np.ndarray:
        """float32 [P-1]: log-probabilities of tokens 1..P-1 at temperature 1; collective."""
        ids = torch.from_numpy(tokens.astype(np.int64)).to(self.device)
        places = torch.arange(len(ids), device=self.device)
        policy, temperature = self.policy, self.policy.temperature
        policy.temperature = 1.0
        try:
            with torch.no_grad():
                logprobs, _ = self._engine(ids[None], places[None], places[:-1], ids[1:])
        finally:
            policy.temperature = temperature
        return logprobs.float().cpu().numpy()

    def peak_device_memory(self) -> int:
        """Peak bytes allocated on the GPU; 0 on CPU."""
        return torch.cuda.max_memory_allocated() if self.device.type == "cuda" else 0

    def gather(self, dtype: str) -> Iterator[tuple[str, Tensor]]:
        """Names and full tensors of the policy, in Hugging Face terms; collective over ranks.

        A tied head is not listed apart from its embedding.
        """
        for bucket in _buckets(self.policy.causal_lm.named_parameters()):
            with self._gathered([parameter for _, parameter in bucket]):
                for name, parameter in bucket:
                    yield name, parameter.detach().to(getattr(torch, dtype))

    def _gathered(self, parameters: list[Any]) -> Any:
        if not self._sharded:
            return nullcontext()
        import deepspeed

        return deepspeed.zero.GatheredParameters(parameters)

    def save_optimizer(self, folder: Path) -> None:
        """Write optimizer and model partitions, and every rank's RNG; collective over ranks."""
        self._engine.save_checkpoint(str(folder), tag=CHECKPOINT_TAG, save_latest=False)
        torch.save(_rng_state(self.device), folder / _rng_file())

    def save_model(self, folder: Path, source: str) -> None:
        """Write weights, configuration and the tokenizer of `source`; collective over ranks."""
        tensors = {
            name: tensor.cpu().clone() for name, tensor in self.gather(self._dtype) if self._first
        }
        if self._first:
            self.policy.causal_lm.save_pretrained(folder, state_dict=tensors)
            load_tokenizer(source, self._trust).save_pretrained(folder)

    def load_optimizer(self, folder: Path) -> None:
        """Read what `save_optimizer` wrote; raises InputError when it does not fit this engine."""
        with weights_only():
            path, _ = self._engine.load_checkpoint(str(folder), tag=CHECKPOINT_TAG)
        if path is None:
            raise InputError(
                f"DeepSpeed found no usable state in {folder}",
                "a checkpoint written with the same learner.ranks and learner.zero_stage",
                "resume with those settings, or start a new run from the exported model",
            )
        _restore_rng(torch.load(folder / _rng_file(), weights_only=True), self.device)


def _rng_file() -> str:
    return f"rng-{torch.distributed.get_rank()}.pt"


def _rng_state(device: torch.device) -> dict[str, Tensor]:
    """What dropout draws from, on the CPU and on the device; a policy without any draws nothing."""
    state = {"cpu": torch.get_rng_state()}
    return state | ({"cuda": torch.cuda.get_rng_state()} if device.type == "cuda" else {})


def _restore_rng(state: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"])


def _without_shared_buffer() -> None:
    """Keep DeepSpeed from setting up an all-reduce in shared memory that nothing here calls.

    It would compile an extension for a minute, and leave 66 MiB in /dev/shm whenever a rank is
    killed while it starts.
    """
    from deepspeed import ops

    ops.__compatible_ops__["deepspeed_shm_comm"] = False


def load_policy(config: ExperimentConfig, model: str, device: torch.device) -> PolicyModel:
    """The policy from a Hugging Face folder or hub name, in the learner's precision."""
    from transformers import AutoModelForCausalLM

    learner = config.learner
    causal_lm: Any = AutoModelForCausalLM.from_pretrained(
        model,
        dtype=getattr(torch, learner.dtype),
        attn_implementation=learner.attention,
        trust_remote_code=config.trust_remote_code,
        use_safetensors=True,
    )
    causal_lm.to(device)
    if learner.gradient_checkpointing:
        causal_lm.gradient_checkpointing_enable({"use_reentrant": False})
    causal_lm.train()
    return PolicyModel(causal_lm, config.rollout.temperature, learner.logprob_chunk_tokens)


def _buckets(named: Iterator[tuple[str, Any]]) -> Iterator[list[tuple[str, Any]]]:
    bucket: list[tuple[str, Any]] = []
    size = 0
    for name, parameter in named:
        bucket.append((name, parameter))
        size += getattr(parameter, "ds_numel", parameter.numel()) * parameter.element_size()
        if size >= GATHER_BYTES:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket
