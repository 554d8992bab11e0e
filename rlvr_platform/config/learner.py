"""The learner ranks: DeepSpeed, optimizer, micro-batches."""

from typing import Literal

from rlvr_platform.config.base import Section, setting


class OptimizerConfig(Section):
    learning_rate: float = setting(1e-6, "Peak learning rate of AdamW.", ge=0)
    schedule: Literal["constant", "linear", "cosine"] = setting(
        "constant", "Decay after warm-up, to 0 at the last optimizer step."
    )
    warmup_steps: int = setting(0, "Linear warm-up. Optimizer steps.", ge=0)
    weight_decay: float = setting(0.0, "Decoupled weight decay.", ge=0)
    beta1: float = setting(0.9, "First moment's decay.", ge=0, lt=1)
    beta2: float = setting(0.95, "Second moment's decay.", ge=0, lt=1)
    eps: float = setting(1e-8, "Added to the root of the second moment.", gt=0)
    max_grad_norm: float = setting(
        1.0,
        "Gradients are scaled down to this global norm. The limit keeps their squares finite.",
        gt=0,
        le=1e12,
    )


class LearnerConfig(Section):
    ranks: int = setting(1, "Learner actors, one DeepSpeed rank each.", ge=1)
    zero_stage: Literal[0, 1, 2, 3] = setting(
        1,
        "DeepSpeed ZeRO: 1 shards optimizer state, 2 gradients too, 3 weights too. 0 shards "
        "nothing and is for float32.",
    )
    dtype: Literal["float32", "bfloat16"] = setting(
        "bfloat16", "Compute precision; bfloat16 keeps float32 master weights."
    )
    optimizer: OptimizerConfig = OptimizerConfig()
    minibatches: int = setting(
        1, "Optimizer steps made of one training step's rows, each row used once.", ge=1
    )
    tokens_per_micro_batch: int = setting(
        8192, "Budget of one forward pass, padding included. Tokens.", ge=1
    )
    layout: Literal["padded", "packed", "shared_prompt"] = setting(
        "padded",
        "padded: rows of similar length side by side. packed: rows end to end in one sequence; "
        "for flash_attention_2. shared_prompt: the rows of a group behind one copy of their "
        "prompt, for prompts longer than completions; its mask takes the square of a group's "
        "tokens, needs sdpa and full attention in every layer.",
    )
    logprob_chunk_tokens: int = setting(
        1024, "Positions whose logits exist at one time: bounds memory. Tokens.", ge=1
    )
    gradient_checkpointing: bool = setting(
        False, "Recompute activations in the backward pass: less memory, about a third slower."
    )
    attention: Literal["sdpa", "eager", "flash_attention_2"] = setting(
        "sdpa", "Attention implementation of the trainer; flash_attention_2 needs a GPU."
    )
    on_non_finite: Literal["stop", "skip"] = setting(
        "stop",
        "What follows a loss or gradient that is not finite. Its optimizer step is not taken on "
        "any rank, and the rows go to the run's offending/. stop: the run ends with an error. "
        "skip: it goes on, and learner/skipped_updates counts.",
    )
    threads: int = setting(2, "CPU only: OpenMP threads of one rank.", ge=1)
    start_timeout_s: float = setting(900.0, "Deadline for start. Seconds.", gt=0)
    update_timeout_s: float = setting(1800.0, "Deadline for one update. Seconds.", gt=0)
