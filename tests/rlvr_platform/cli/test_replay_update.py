import argparse
import json

import numpy as np
import pytest

from rlvr_platform.batching.rows import Rows
from rlvr_platform.cli import replay_update
from rlvr_platform.config.algorithm import AlgorithmConfig
from rlvr_platform.errors import InputError
from rlvr_platform.guards import Evidence, Place, write_evidence


def run(path):
    parser = argparse.ArgumentParser(prog="rlvr")
    replay_update.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["replay-update", str(path)])
    return args.run(args)


def test_prints_which_row_is_at_fault_and_why_as_strict_json(tmp_path, capsys):
    scores = np.full(6, -1.0, np.float32)
    rows = Rows(
        tokens=np.arange(6, dtype=np.int32),
        offsets=np.array([0, 3, 6]),
        trained=np.array([0, 1, 1, 0, 1, 1], bool),
        behaviour=np.array([0, -1, -1, 0, -1, np.nan], np.float32),
        advantage=np.array([1, 2], np.float32),
        weight=np.array([1, np.inf], np.float32),
        group=np.array([0, 7], np.int32),
        prompt_length=np.array([1, 1]),
    )
    evidence = Evidence("loss is nan", rows, scores, scores, None, AlgorithmConfig())
    write_evidence(tmp_path / "a.npz", evidence, Place(3, 0, 0))
    assert run(tmp_path / "a.npz") == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (found["step"], found["rank"], found["loss"]) == (3, 0, "nan")
    good, bad = found["rows"]
    assert (good["loss"], good["not_finite"]) == (-2.0, [])
    assert (bad["group"], bad["weight"], bad["loss"]) == (7, "inf", "nan")
    assert bad["not_finite"][:2] == ["behaviour", "weight"]


def test_another_file_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="offending/"):
        run(tmp_path / "missing.npz")
