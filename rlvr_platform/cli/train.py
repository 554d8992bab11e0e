"""`rlvr train`: the one command that starts `actors`."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from rlvr_platform.config import ExperimentConfig, load_config
from rlvr_platform.errors import InputError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its arguments."""
    parser = subparsers.add_parser(
        "train",
        help="train a model",
        description="Trains. Starts a local Ray when RAY_ADDRESS is unset, joins it otherwise.",
    )
    parser.add_argument("config", metavar="CONFIG", type=Path, help="YAML file")
    parser.add_argument(
        "overrides", metavar="key.path=value", nargs="*", help="set on top of the file"
    )
    parser.add_argument(
        "--run-dir", metavar="D", type=Path, help="default: runs/NAME-TIME, time in UTC"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from the newest checkpoint in --run-dir"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train; returns 0, or 130 when interrupted with a checkpoint written."""
    if args.resume and args.run_dir is None:
        raise InputError(
            "--resume without --run-dir: which run goes on is not clear",
            "the folder of the run",
            f"rlvr train {args.config} --resume --run-dir runs/NAME-TIME",
        )
    config = load_config(args.config, args.overrides)
    require_own_actors()
    from actors.launch import train

    return train(config, args.run_dir or default_run_dir(config), args.resume)


def default_run_dir(config: ExperimentConfig) -> Path:
    """runs/NAME-TIME below the working directory."""
    return Path("runs") / f"{config.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def require_own_actors() -> None:
    """Raise InputError when `import actors` would not find the package of this repository."""
    wanted = "the folder `actors` that stands beside `rlvr_platform`"
    fix = "pip uninstall actors; then `make setup`, or run from the root of the repository"
    try:
        import actors
    except ImportError as error:
        raise InputError(f"cannot import actors: {error}", wanted, fix) from None
    if not getattr(actors, "RLVR_PLATFORM_ACTORS", False):
        raise InputError(
            f"`import actors` finds another distribution, {actors.__path__}", wanted, fix
        )
