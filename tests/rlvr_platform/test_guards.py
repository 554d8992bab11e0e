import math
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from rlvr_platform.batching.rows import Rows
from rlvr_platform.config.algorithm import AlgorithmConfig, KLConfig
from rlvr_platform.errors import InputError, NumericalError
from rlvr_platform.guards import (
    Evidence,
    NonFiniteUpdate,
    Place,
    keep,
    read_evidence,
    require_finite,
    row_losses,
    take_rows,
    write_evidence,
)

ALGORITHM = AlgorithmConfig(kl=KLConfig(estimator="k3", coefficient=0.1))
PLACE = Place(step=12, rank=1, minibatch=0)


def evidence_of(rows: Rows, seed: int = 1) -> Evidence:
    generator = np.random.default_rng(seed)

    def scores() -> np.ndarray:
        values = -generator.exponential(2.0, len(rows.tokens)).astype(np.float32)
        return np.where(rows.trained, values, np.float32(np.nan))

    return Evidence("loss is nan", rows, scores(), scores(), scores(), ALGORITHM)


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    lengths = np.array([5, 8, 6])
    within = np.concatenate([np.arange(length) for length in lengths])
    total = int(lengths.sum())
    return Rows(
        tokens=generator.integers(0, 50, total).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        trained=within >= 2,
        behaviour=(-generator.exponential(2.0, total)).astype(np.float32),
        advantage=generator.normal(size=3).astype(np.float32),
        weight=generator.uniform(0.5, 1.5, 3).astype(np.float32),
        group=np.array([0, 0, 4], np.int32),
        prompt_length=np.full(3, 2),
    )


def equal(one: object, other: object) -> bool:
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, Rows):
            same = equal(a, b)
        elif isinstance(a, np.ndarray):
            same = a.dtype == b.dtype and a.tobytes() == b.tobytes()
        else:
            same = a == b
        if not same:
            return False
    return True


@pytest.mark.parametrize("reference", [True, False])
def test_a_file_holds_the_evidence_bit_for_bit_and_needs_no_pickle(tmp_path, rows, reference):
    rows.behaviour[3] = np.nan
    evidence = evidence_of(rows)
    evidence = evidence if reference else replace(evidence, reference=None)
    write_evidence(tmp_path / "a.npz", evidence, PLACE)
    place, read = read_evidence(tmp_path / "a.npz")
    assert place == PLACE
    assert equal(read, evidence)


@pytest.mark.parametrize("column", ["behaviour", "advantage", "weight"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_row_at_fault_and_its_input_are_found_again(tmp_path, rows, column, value):
    at = 7 if column == "behaviour" else 1
    getattr(rows, column)[at] = value
    write_evidence(tmp_path / "a.npz", evidence_of(rows), PLACE)
    _, evidence = read_evidence(tmp_path / "a.npz")
    losses = row_losses(evidence)
    assert losses.faults[1][0] == column
    assert losses.faults[0] == losses.faults[2] == ()
    assert column in evidence.summary


def test_untrained_tokens_are_nobodys_fault(rows):
    rows.behaviour[0] = np.nan
    evidence = evidence_of(rows)
    assert row_losses(evidence).faults == ((), (), ())
    assert evidence.summary.endswith("none of them")


def test_a_policy_score_that_overflows_is_the_rows_fault_though_its_inputs_are_finite(rows):
    evidence = evidence_of(rows)
    evidence.logprobs[7], evidence.old[7] = 0.0, -1000.0
    losses = row_losses(evidence)
    assert losses.faults[1] and not set(losses.faults[1]) & {"behaviour", "policy", "old"}
    assert losses.faults[0] == ()


def test_rows_taken_out_are_those_rows(rows):
    part = take_rows(rows, np.array([2, 0]))
    assert part.count == 2
    assert part.tokens.tolist() == [*rows.tokens[13:], *rows.tokens[:5]]
    assert part.behaviour[part.trained].tolist() == [*rows.behaviour[15:], *rows.behaviour[2:5]]
    assert part.group.tolist() == [4, 0]
    assert take_rows(rows, np.array([], np.int64)).count == 0


def test_evidence_is_kept_under_its_step_and_rank_and_the_message_says_where(tmp_path, rows):
    rows.weight[0] = np.inf
    folder = tmp_path / "offending"
    message = keep(evidence_of(rows), folder, PLACE)
    assert str(folder / "step-000012-rank-1.npz") in message and "weight" in message
    keep(evidence_of(rows), folder, replace(PLACE, minibatch=2))
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["step-000012-rank-1-minibatch-2.npz", "step-000012-rank-1.npz"]
    assert folder.stat().st_mode & 0o077 == 0


def test_a_disk_that_refuses_does_not_hide_what_was_not_finite(tmp_path, rows):
    (tmp_path / "offending").write_text("in the way")
    message = keep(evidence_of(rows), tmp_path / "offending", PLACE)
    assert message.startswith("the loss is nan") and "rows are lost" in message


@pytest.mark.parametrize("content", [b"", b"PK", b'{"step": 1}'])
def test_any_other_file_is_refused(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot read"):
        read_evidence(path)
    with pytest.raises(InputError, match="cannot read"):
        read_evidence(tmp_path / "missing.npz")
    np.savez(path, tokens=np.zeros(3))
    with pytest.raises(InputError, match="offending/"):
        read_evidence(path)


def test_a_file_that_hides_a_pickle_is_refused(tmp_path, rows):
    write_evidence(tmp_path / "a.npz", evidence_of(rows), PLACE)
    arrays = dict(np.load(tmp_path / "a.npz"))
    arrays["tokens"] = np.array([object()])
    np.savez(tmp_path / "b.npz", **arrays)
    with pytest.raises(InputError, match="allow_pickle"):
        read_evidence(tmp_path / "b.npz")


def test_the_policy_decides_whether_the_run_ends(rows):
    require_finite([], "stop")
    require_finite(["rank 0: the loss is nan"], "skip")
    with pytest.raises(NumericalError, match=r"rank 0.*; rank 1.*(.|\n)*on_non_finite=skip"):
        require_finite(["rank 0: the loss is nan", "rank 1: the loss is inf"], "stop")


def test_the_error_crosses_processes_without_its_rows(rows):
    error = NonFiniteUpdate(evidence_of(rows))
    crossed = pickle.loads(pickle.dumps(error))
    assert type(crossed) is NumericalError and str(crossed) == str(error)
    assert not hasattr(crossed, "evidence")


def test_the_sum_over_rows_is_the_loss_of_them_together(rows):
    import torch

    from rlvr_platform.algorithms.objective import objective

    evidence = evidence_of(rows)
    on, row = rows.trained, np.repeat(np.arange(3), rows.lengths)
    columns = [evidence.logprobs, evidence.logprobs, evidence.old, rows.behaviour]
    per_row = [rows.advantage[row], rows.weight[row], row]
    tensors = [torch.from_numpy(c[on]) for c in (*columns, *per_row, evidence.reference)]
    loss, _ = objective(*tensors, ALGORITHM)
    assert math.isclose(row_losses(evidence).loss.sum(), loss.item(), rel_tol=1e-5)
