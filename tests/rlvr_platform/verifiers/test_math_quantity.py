import pytest

from rlvr_platform.verifiers.math_quantity import canonical_unit, read_quantity
from rlvr_platform.verifiers.math_text import normalise


@pytest.mark.parametrize(
    ("text", "core", "mark", "value"),
    [
        (r"5\text{ cm}^2", "5", "unit", "cm^2"),
        (r"10\ \mathrm{m}/\mathrm{s}", "10", "unit", "m/s"),
        (r"28\%", "28", "percent", True),
        ("28 percent", "28", "percent", True),
        (r"30^\circ", "30", "degrees", True),
        (r"3\text{ million}", "3", "scale", 10**6),
        (r"12^{\mathrm{th}}", "12", "hedged", False),
        (r"9\text{ or more}", "9", "hedged", True),
        (r"\text{at least } 9", "9", "hedged", True),
        ("2x+1", "2x+1", "unit", ""),
        ("2ab", "2ab", "unit", ""),
        ("4 x", "4 x", "unit", ""),
        ("r^2 h", "r^2 h", "unit", ""),
        ("4 h", "4", "unit", "h"),
        ("9.8 m/s^{2}", "9.8", "unit", "m/s^2"),
        (r"60\,\mathrm{km\,h^{-1}}", "60", "unit", "km/h"),
    ],
)
def test_marks_are_taken_off_and_kept(text, core, mark, value):
    quantity = read_quantity(normalise(text))
    assert quantity.core == core
    assert getattr(quantity, mark) == value


@pytest.mark.parametrize(
    ("words", "unit"),
    [("square inches", "in^2"), ("meters per second", "m/s"), ("cubic feet", "ft^3")],
)
def test_spelled_units_have_one_name(words, unit):
    assert canonical_unit(words) == (unit, True)
    assert canonical_unit("apples")[1] is False
