"""Seconds a step, ours against TRL's, on the same machine, model and workload.

    make bench            or    python tests/benchmarks/run.py [--pairs 3] [--steps 40]

Runs alternate, so that a machine whose speed drifts favours neither. Each run is a process of
its own; its first steps are left out. Prints one line per run, then the medians and their ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rlvr_platform.config import load_config
from rlvr_platform.models.resolve import resolve_model

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs/dev/benchmark.yaml"
SKIP = 8
"""Steps left out at the start of a run: compilation, caches, clocks."""

PHASES = ("generate", "verify", "allocate", "learn", "sync", "overhead")


def run_ours(steps: int) -> list[float]:
    """Seconds of each step of a run of `rlvr train`; prints the median of each phase."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        arguments = ["train", str(CONFIG), f"steps={steps}", "--run-dir", str(run)]
        _run([sys.executable, "-m", "rlvr_platform", *arguments])
        records = [json.loads(line) for line in (run / "metrics.jsonl").open()]
        events = [json.loads(line) for line in (run / "events.jsonl").open()]
    kept = records[1 + SKIP :]
    phases = {p: statistics.median(r.get(f"time/{p}", 0.0) for r in kept) for p in PHASES}
    print("    " + "  ".join(f"{name} {seconds:.3f}" for name, seconds in phases.items()))
    memory = next(event for event in events if event["kind"] == "memory")
    peaks = {k: v for k, v in memory.items() if k not in ("kind", "time")}
    print("    peak MiB: " + "  ".join(f"{k} {v >> 20}" for k, v in peaks.items()))
    return [record["time/step"] for record in kept]


def run_trl(steps: int) -> list[float]:
    """Seconds of each step of TRL's GRPOTrainer."""
    model = str(resolve_model(load_config(CONFIG).model))
    script = Path(__file__).with_name("trl_step.py")
    output = _run([sys.executable, str(script), model, str(steps), str(SKIP)])
    return list(json.loads(output.strip().splitlines()[-1])["seconds"])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    resolve_model(load_config(CONFIG).model)
    sides: dict[str, Callable[[int], list[float]]] = {"rlvr": run_ours, "trl": run_trl}
    medians: dict[str, list[float]] = {name: [] for name in sides}
    for pair in range(args.pairs):
        for name, run in sides.items():
            seconds = statistics.median(run(args.steps))
            medians[name].append(seconds)
            print(f"pair {pair + 1}: {name:4} {seconds:.3f} s a step", flush=True)
    ratios = [a / b for a, b in zip(medians["rlvr"], medians["trl"], strict=True)]
    ours, theirs = (statistics.median(medians[name]) for name in sides)
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"rlvr {ours:.3f} s, trl {theirs:.3f} s; ratio of each pair: {listed}")
    print(f"median ratio rlvr / trl: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
