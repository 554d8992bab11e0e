import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.batching.denominators import loss_weights, normalise

counts = st.lists(st.integers(0, 50), min_size=1, max_size=30).map(
    lambda values: np.array(values, np.int32)
)


@pytest.mark.parametrize(
    ("normalisation", "expected"),
    [
        ("token_mean", [1 / 8, 1 / 8]),
        ("sequence_mean", [1 / 4, 1 / 12]),
        ("constant", [1 / 20, 1 / 20]),
    ],
)
def test_two_rows_by_hand(normalisation, expected):
    weights = loss_weights(np.array([2, 6], np.int32), normalisation, constant_length=10)
    assert weights.dtype == np.float32
    assert weights == pytest.approx(expected)


@given(counts.filter(lambda tokens: tokens.any()))
def test_means_sum_to_one_over_all_trained_tokens(tokens):
    for normalisation in ("token_mean", "sequence_mean"):
        weights = loss_weights(tokens, normalisation, constant_length=1)
        assert float(weights @ tokens) == pytest.approx(1, abs=1e-5)


@given(counts.filter(lambda tokens: tokens.any()))
def test_every_trained_sequence_counts_the_same_in_sequence_mean(tokens):
    trained = tokens > 0
    shares = loss_weights(tokens, "sequence_mean", constant_length=1) * tokens
    assert shares[trained] == pytest.approx(1 / trained.sum(), rel=1e-5)


@given(counts, st.sampled_from(["token_mean", "sequence_mean", "constant"]))
def test_rows_without_trained_tokens_change_nothing(tokens, normalisation):
    padded = np.concatenate([tokens, np.zeros(3, np.int32)])
    weights = loss_weights(padded, normalisation, constant_length=7)
    assert np.array_equal(weights[:-3], loss_weights(tokens, normalisation, constant_length=7))
    assert np.isfinite(weights).all() and (weights[-3:] == 0).all()


def test_no_rows_give_no_weights():
    assert loss_weights(np.zeros(0, np.int32), "token_mean", 1).shape == (0,)


def test_normalise_multiplies_the_row_weights(make_group, make_batch):
    batch = make_batch([make_group(0, 3, [2, 6])])
    expected = batch.weight * np.float32(1 / 8)
    assert normalise(batch, "token_mean", 10).weight == pytest.approx(expected)
