import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.report.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Line,
    Scale,
    line_chart,
    look,
    stacked_chart,
    ticks,
)
from rlvr_platform.report.series import Points, aligned, points, series

finite = st.floats(-1e30, 1e30)
curves = st.lists(finite, min_size=1, max_size=300)


def line(values, label="m"):
    return Line(label, points(series(range(len(values)), values)))


def shapes(svg, kind):
    """The places of every path of class `kind`, as arrays [n, 2]."""
    found = re.findall(rf'<path d="M([^"]*?)Z?" class="{kind}[^"]*"', svg)
    return [np.array([place.split(" ") for place in d.split("L")], float) for d in found]


def inside(places):
    x, y = places.T
    return (
        (x >= LEFT).all()
        and (x <= WIDTH - RIGHT).all()
        and (y >= TOP).all()
        and (y <= HEIGHT - BOTTOM).all()
    )


@given(curves)
def test_a_curve_stays_inside_its_frame_and_runs_from_left_to_right(values):
    svg = line_chart([line(values)], (0, len(values) - 1), "m")
    (path,) = shapes(svg, "line")
    assert inside(path)
    assert (np.diff(path[:, 0]) >= 0).all()
    assert all(inside(band) for band in shapes(svg, "band"))


def test_a_curve_passes_through_its_values():
    svg = line_chart([line([0.0, 1.0, 0.5, 0.25])], (0, 3), "m")
    (path,) = shapes(svg, "line")
    heights = HEIGHT - BOTTOM - path[:, 1]
    assert heights / heights[1] == pytest.approx([0.0, 1.0, 0.5, 0.25], abs=0.002)
    assert np.diff(path[:, 0]) == pytest.approx((WIDTH - LEFT - RIGHT) / 4, abs=0.11)


def test_values_far_from_zero_use_the_whole_height():
    svg = line_chart([line([100.0, 101.0])], (0, 1), "m")
    (path,) = shapes(svg, "line")
    assert abs(path[0, 1] - path[1, 1]) > 0.8 * (HEIGHT - TOP - BOTTOM)


def test_a_thinned_curve_has_a_band_from_least_to_greatest():
    values = np.tile([0.0, 10.0], 500)
    svg = line_chart([line(values)], (0, 999), "m")
    (path,), (band,) = shapes(svg, "line"), shapes(svg, "band")
    assert len(path) <= 120
    top, foot = band[:, 1].min(), band[:, 1].max()
    assert foot == pytest.approx(HEIGHT - BOTTOM, abs=0.1)
    assert path[:-1, 1] == pytest.approx((top + foot) / 2, abs=(foot - top) * 0.06)


def test_an_interval_is_drawn_although_each_point_is_one_step():
    exact = points(series([0, 10], [0.2, 0.6]))
    known = Points(exact.first, exact.last, exact.mean, exact.mean - 0.1, exact.mean + 0.1)
    svg = line_chart([Line("eval", known)], (0, 10), "eval")
    assert len(shapes(svg, "band")) == 1
    assert "step 10\neval 0.6 (0.5 to 0.7)" in svg


def test_each_point_tells_its_numbers():
    svg = line_chart([line([0.5, 0.25], "a"), line([3, 4], "b")], (0, 1), "both")
    assert "<title>step 0\na 0.5\nb 3</title>" in svg
    assert "<title>step 1\na 0.25\nb 4</title>" in svg


def test_a_curve_without_points_is_said_to_be_empty():
    svg = line_chart([line([])], (0, 1), "a & b")
    assert svg == '<p class="quiet">a &amp; b: nothing recorded</p>'


def test_labels_are_escaped():
    svg = line_chart([line([1.0], "<script>")], (0, 0), '"><script>')
    assert "<script>" not in svg


@given(st.lists(st.lists(st.floats(0, 1e6), min_size=7, max_size=7), min_size=1, max_size=5))
def test_layers_lie_on_each_other_and_reach_their_sum(rows):
    columns = aligned([series(range(7), row) for row in rows])
    layers = [Line(str(i), points(c)) for i, c in enumerate(columns)]
    total = Line("sum", points(series(range(7), np.sum(rows, 0))))
    svg = stacked_chart(layers, [total], (0, 6), "stack")
    areas, (over,) = shapes(svg, "area"), shapes(svg, "over")
    assert len(areas) == len(rows)
    assert all(inside(area) for area in areas)
    for below, above in itertools.pairwise(areas):
        assert below[:14].tolist() == above[14:][::-1].tolist()
    assert areas[0][14:, 1] == pytest.approx(HEIGHT - BOTTOM)
    assert areas[-1][:14] == pytest.approx(over, abs=0.11)


def test_a_single_step_has_areas_as_wide_as_the_frame():
    layers = [line([1.0], "a"), line([3.0], "b")]
    first, second = shapes(stacked_chart(layers, [], (0, 0), "s"), "area")
    assert first[:, 0].tolist() == [LEFT, WIDTH - RIGHT, WIDTH - RIGHT, LEFT]
    heights = [np.ptp(area[:, 1]) for area in (first, second)]
    assert heights[1] == pytest.approx(3 * heights[0], abs=0.2)


@given(finite, st.floats(1e-6, 1e30))
def test_ticks_are_few_and_inside(low, span):
    high = low + span
    if high - low < 1e-9 * abs(low):
        return
    found = ticks(low, high)
    assert len(found) <= 7
    slack = 1e-6 * (high - low)
    assert all(low - slack <= value <= high + slack for value in found)
    assert len(found) >= 2


def test_ticks_are_round():
    assert ticks(0, 1, 4) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert ticks(-3, 17) == [0, 5, 10, 15]


@given(finite, st.floats(1e-3, 1e6), st.floats(0, 1))
def test_a_scale_is_linear(low, span, share):
    if low + span == low:
        return
    scale = Scale(low, low + span, 100.0, 20.0)
    assert scale(low) == 100.0
    assert scale(low + span) == pytest.approx(20.0)


@pytest.mark.parametrize("count", [1, 8, 9, 40])
def test_every_line_of_a_chart_looks_different(count):
    looks = [tuple(look(i, count).items()) for i in range(count)]
    assert len(set(looks)) == count
