"""Seconds a step of TRL's GRPOTrainer on the workload of configs/dev/benchmark.yaml.

    python tests/benchmarks/trl_step.py MODEL_FOLDER STEPS SKIP

Prints one JSON line {"seconds": [...], "rewards": [...]} of the steps after SKIP.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any

THREADS = "2"
os.environ.update(OMP_NUM_THREADS=THREADS, TOKENIZERS_PARALLELISM="false")

from datasets import Dataset  # noqa: E402
from transformers import TrainerCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from rlvr_platform.config.data import ArithmeticSource  # noqa: E402
from rlvr_platform.data.sources import load_records  # noqa: E402

PROMPTS, ROLLOUTS, TOKENS = 16, 8, 8


class Stopwatch(TrainerCallback):
    """Wall time from the end of one step to the end of the next."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())


def exact(completions: list[str], gold: list[str], **_: Any) -> list[float]:
    """1 when the completion is the answer, else 0."""
    return [float(c.strip() == g) for c, g in zip(completions, gold, strict=True)]


def settings(folder: str, steps: int) -> GRPOConfig:
    """The same batch, optimizer and loss as ours; TRL's own generation."""
    return GRPOConfig(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=PROMPTS * ROLLOUTS,
        num_generations=ROLLOUTS,
        max_completion_length=TOKENS,
        temperature=1.0,
        learning_rate=4e-4,
        lr_scheduler_type="constant",
        adam_beta2=0.95,
        max_grad_norm=1.0,
        beta=0.0,
        epsilon_high=0.28,
        loss_type="dapo",
        scale_rewards="group",
        gradient_checkpointing=False,
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )


def main(model: str, steps: int, skip: int) -> None:
    records = load_records(ArithmeticSource(count=8192))
    data = Dataset.from_dict(
        {"prompt": [r.text for r in records], "gold": [r.gold for r in records]}
    )
    stopwatch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=exact,
            args=settings(folder, steps),
            train_dataset=data,
            callbacks=[stopwatch],
        )
        trainer.train()
    seconds = [b - a for a, b in zip(stopwatch.ends, stopwatch.ends[1:], strict=False)]
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    print(json.dumps({"seconds": seconds[skip:], "rewards": rewards}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
