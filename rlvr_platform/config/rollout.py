"""The rollout workers: sampling and engine."""

from typing import Literal

from rlvr_platform.config.base import Section, setting


class EngineConfig(Section):
    """One vLLM engine."""

    dtype: Literal["float32", "bfloat16", "float16"] = setting(
        "bfloat16", "Precision of the engine's weights. Use the learner's on CPU."
    )
    tensor_parallel: int = setting(1, "Devices that share one engine.", ge=1)
    max_sequences: int = setting(256, "Sequences decoded together.", ge=1)
    max_batched_tokens: int | None = setting(
        None, "Tokens of one engine step; unset: vLLM's own choice.", ge=1
    )
    kv_cache_gib: float = setting(1.0, "CPU only: memory for the KV cache. GiB.", gt=0)
    gpu_memory_fraction: float = setting(
        0.85, "GPU only: share of device memory the engine takes.", gt=0, le=1
    )
    eager: bool = setting(False, "Skip graph capture and compilation: slower steps, quicker start.")
    block_size: int | None = setting(
        None,
        "Tokens of one KV block; unset: 32 on CPU (the engine's 128 would keep short "
        "prompts out of the prefix cache), the engine's choice on GPU.",
        ge=1,
    )
    threads: int = setting(2, "CPU only: OpenMP threads of one engine.", ge=1)
    start_timeout_s: float = setting(600.0, "Deadline for the engine's start. Seconds.", gt=0)


class RolloutConfig(Section):
    workers: int = setting(1, "Rollout worker actors, one engine each.", ge=1)
    prompts_per_step: int = setting(16, "Prompts sampled for one training step (B).", ge=1)
    rollouts_per_prompt: int = setting(
        8, "Average rollouts of a prompt; the step's budget is this times prompts_per_step.", ge=2
    )
    sampling_rounds: int = setting(
        1,
        "Above 1: DAPO's dynamic sampling. Prompts whose group collapsed are made up for by new "
        "prompts, up to so many rounds in all, until prompts_per_step groups carry signal. The "
        "collapsed groups' rollouts are spent on top of the budget.",
        ge=1,
    )
    max_new_tokens: int = setting(512, "Completion limit. Tokens.", ge=1)
    temperature: float = setting(1.0, "Sampling temperature; 1 samples the policy itself.", gt=0)
    top_p: float = setting(
        1.0, "Nucleus mass; below 1 the behaviour is not the policy.", gt=0, le=1
    )
    max_lag: int = setting(
        0,
        "Training steps that generation may run ahead. 0: strictly in turn; 1: one step off, "
        "generation and learning overlap.",
        ge=0,
    )
    group_timeout_s: float = setting(
        600.0, "Deadline for one group, submission to last token. Seconds.", gt=0
    )
    engine: EngineConfig = EngineConfig()
