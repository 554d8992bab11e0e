"""Time and memory of the methods' own decisions, each against a plainer way in the same run.

    make bench-methods      or    python tests/benchmarks/methods.py

Every part also runs alone: `python tests/benchmarks/replay.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("downsampling", "allocation", "prediction", "collapse", "replay")


def main() -> None:
    for part in PARTS:
        print(f"-- {part}", flush=True)
        script = Path(__file__).with_name(f"{part}.py")
        # One thread, as in the actors; a process each, since one part measures its own memory.
        command = ["env", "OMP_NUM_THREADS=1", sys.executable, str(script)]
        subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
