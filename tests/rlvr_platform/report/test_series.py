import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.errors import InputError
from rlvr_platform.report.series import aligned, columns, points, series

values = st.floats(-1e6, 1e6)
sparse = st.dictionaries(st.integers(0, 5000), values, min_size=1, max_size=400)


def test_columns_hold_each_metric_where_it_is_recorded():
    found = columns([{"step": 0, "a": 1}, {"step": 1, "b": 2.5}, {"step": 3, "a": 4, "b": 0.0}])
    assert list(found) == ["a", "b"]
    assert found["a"].steps.tolist() == [0, 3]
    assert found["a"].values.tolist() == [1.0, 4.0]
    assert found["b"].steps.tolist() == [1, 3]
    assert found["b"].total == 2.5


def test_values_that_cannot_be_drawn_are_left_out():
    values = [float("nan"), None, float("inf"), -1e305, 7]
    found = columns([{"step": step, "a": value} for step, value in enumerate(values)])
    assert found["a"].steps.tolist() == [4]


def test_no_records_give_no_columns():
    assert columns([]) == {}


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{"step": 1, "a": "7"}], "a that is not a number"),
        ([{"step": 1}, {"a": 7}], "line 2 of metrics.jsonl has no step"),
        ([{"step": 1}, {"step": float("nan")}], "line 2 of metrics.jsonl has no step"),
        ([{"a": 7}], "line 1 of metrics.jsonl has no step"),
    ],
)
def test_a_damaged_record_is_refused_by_name(records, message):
    with pytest.raises(InputError, match=message):
        columns(records)


@given(sparse, st.integers(1, 50))
def test_thinning_keeps_extremes_order_and_the_mean_of_what_a_point_stands_for(by_step, most):
    steps = sorted(by_step)
    data = series(steps, [by_step[s] for s in steps])
    thin = points(data, most)
    assert len(thin.mean) <= most
    assert thin.low.min() == data.values.min()
    assert thin.high.max() == data.values.max()
    assert (thin.first[1:] > thin.last[:-1]).all()
    assert (thin.first[0], thin.last[-1]) == (steps[0], steps[-1])
    for k in range(len(thin.mean)):
        inside = [by_step[s] for s in steps if thin.first[k] <= s <= thin.last[k]]
        assert thin.mean[k] == pytest.approx(np.mean(inside), rel=1e-9, abs=1e-6)
        assert (thin.low[k], thin.high[k]) == (min(inside), max(inside))


@given(sparse)
def test_a_short_series_is_drawn_as_it_is(by_step):
    steps = sorted(by_step)
    data = series(steps, [by_step[s] for s in steps])
    assert points(data, len(steps)).mean.tolist() == data.values.tolist()


@given(st.lists(sparse, min_size=1, max_size=4))
def test_aligned_series_share_their_steps_and_keep_their_sums(many):
    made = [series(sorted(d), [d[s] for s in sorted(d)]) for d in many]
    union = sorted(set().union(*many))
    for before, after in zip(made, aligned(made), strict=True):
        assert after.steps.tolist() == union
        known = dict(zip(before.steps.tolist(), before.values.tolist(), strict=True))
        assert after.values.tolist() == [known.get(step, 0.0) for step in union]
