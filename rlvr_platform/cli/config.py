"""`rlvr config`: look at a configuration without running it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rlvr_platform.config import ExperimentConfig, dump_config, load_config
from rlvr_platform.errors import ConfigError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its arguments."""
    parser = subparsers.add_parser("config", help="show or check a configuration")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    show = actions.add_parser("show", help="the resolved tree, defaults filled in, as YAML")
    check = actions.add_parser("check", help="report every problem; exits with 2 if there is one")
    schema = actions.add_parser("schema", help="the JSON schema of a configuration file")
    for action, run in ((show, run_show), (check, run_check)):
        action.add_argument("config", metavar="CONFIG", type=Path, help="YAML file")
        action.add_argument("overrides", metavar="key.path=value", nargs="*")
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run)
    schema.add_argument(
        "config", metavar="CONFIG", type=Path, nargs="?", help="checked first when given"
    )
    schema.set_defaults(run=run_schema)


def run_show(args: argparse.Namespace) -> int:
    """Print the resolved configuration."""
    config = load_config(args.config, args.overrides)
    tree = config.model_dump_json(indent=2) + "\n" if args.json else dump_config(config)
    print(tree, end="")
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Print that the configuration is legal, and what it amounts to; raises ConfigError if not."""
    try:
        config = load_config(args.config, args.overrides)
    except ConfigError as error:
        if args.json:
            print(json.dumps({"ok": False, "config": str(args.config), "error": str(error)}))
            return error.exit_code
        raise
    if args.json:
        print(json.dumps({"ok": True, "config": str(args.config)}))
    else:
        print(f"{args.config}: ok; {summary(config)}")
    return 0


def run_schema(args: argparse.Namespace) -> int:
    """Print the JSON schema."""
    if args.config is not None:
        load_config(args.config)
    print(json.dumps(ExperimentConfig.model_json_schema(), indent=2))
    return 0


def summary(config: ExperimentConfig) -> str:
    """The batch arithmetic in one phrase."""
    rollout, learner = config.rollout, config.learner
    rollouts = rollout.prompts_per_step * rollout.rollouts_per_prompt
    return (
        f"{config.steps} steps of {rollout.prompts_per_step} prompts x "
        f"{rollout.rollouts_per_prompt} rollouts = {rollouts}, "
        f"{config.steps * learner.minibatches} optimizer steps, "
        f"{rollout.workers} rollout worker(s) and {learner.ranks} learner rank(s) "
        f"on {config.cluster.device}"
    )
