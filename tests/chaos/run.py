"""Faults in real runs: what is killed, stopped, filled up or slowed, and what becomes of it.

    make chaos          or    python tests/chaos/run.py [--runs 20] [--seed 0] [--only PART]

Every run is a process of its own with real engines and learners. Prints a line per fault, then
one table; ends with 1 when anything fails. The folders of runs are kept then, and named. No other
run may be killed on the machine meanwhile: what it leaves in shared memory would count as ours.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from rlvr_platform.config.model import ArithmeticModel  # noqa: E402
from rlvr_platform.models.resolve import resolve_model  # noqa: E402
from tests.chaos import clocks, controller, ends, kills, stuck, useful  # noqa: E402
from tests.chaos.live import HarnessError  # noqa: E402
from tests.chaos.table import Outcome, render  # noqa: E402

Part = Callable[[Path, argparse.Namespace], Iterator[Outcome]]
PARTS: dict[str, Part] = {
    "kills": lambda folder, options: kills.outcomes(folder, options.runs, options.seed),
    "controller": lambda folder, options: controller.outcomes(
        folder, (options.runs + 1) // 2, options.seed
    ),
    "useful": lambda folder, _: useful.outcomes(folder),
    "stuck": lambda folder, _: stuck.outcomes(folder),
    "clocks": lambda folder, _: clocks.outcomes(folder),
    "ends": lambda folder, _: ends.outcomes(folder),
}


def main() -> int:
    """Run the chosen parts; 0 when everything passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=20, help="kills; half as many of controllers")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--only", choices=PARTS, action="append", help="may be given again")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the run under way ends too
    resolve_model(ArithmeticModel())
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    found = [outcome for part in options.only or PARTS for outcome in told(part, folder, options)]
    print("\n" + render(found))
    if any(outcome.all_problems for outcome in found):
        print(f"the runs are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def told(part: str, folder: Path, options: argparse.Namespace) -> Iterator[Outcome]:
    """The outcomes of a part, each on a line as it comes."""
    began = time.monotonic()
    try:
        for outcome in PARTS[part](folder, options):
            verdict = outcome.skipped or ("FAIL" if outcome.all_problems else "pass")
            print(f"{time.monotonic() - began:6.0f} s  {outcome.fault}: {verdict}", flush=True)
            for problem in outcome.all_problems:
                print(f"          {problem}", flush=True)
            yield outcome
    except HarnessError as error:
        yield Outcome(part, [str(error)])


if __name__ == "__main__":
    sys.exit(main())
