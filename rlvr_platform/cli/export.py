"""`rlvr export`: the newest checkpoint as a Hugging Face folder."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from rlvr_platform.errors import InputError
from rlvr_platform.files import atomic_folder
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.training_state import MODEL_FOLDER


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its arguments."""
    parser = subparsers.add_parser(
        "export",
        help="write a trained model as a Hugging Face folder",
        description="Copies the model of the newest intact checkpoint; it loads in transformers "
        "and vLLM.",
    )
    parser.add_argument("run_dir", metavar="RUN", type=Path, help="folder of the run")
    parser.add_argument("out", metavar="OUT", type=Path, help="folder to write; must not exist")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Export; raises InputError when there is no checkpoint or OUT exists."""
    folder = RunFolder(args.run_dir)
    if not folder.checkpoints.is_dir():
        raise InputError(f"{folder.path} holds no run", "the folder of a run that was started")
    found = folder.latest_checkpoint().found
    if found is None:
        raise InputError(
            f"{folder.path} has no checkpoint yet",
            "a run that finished, was interrupted, or reached checkpoint.every_steps",
        )
    with atomic_folder(args.out) as target:
        shutil.copytree(found.path / MODEL_FOLDER, target, dirs_exist_ok=True)
    print(f"step {found.step} of {folder.path} exported to {args.out}")
    return 0
