"""Residues decide about rational functions as sympy's algebra does."""

from __future__ import annotations

import contextlib

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.verifiers.math_expression import Node, number, symbols
from rlvr_platform.verifiers.math_modular import NotRational, same_rational_function

x, y = Node("sym", name="x"), Node("sym", name="y")
leaves = st.sampled_from([x, y]) | st.integers(-3, 3).map(number)


def grown(trees: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    binary = st.builds(lambda op, a, b: Node(op, (a, b)), st.sampled_from("+*/"), trees, trees)
    power = st.builds(lambda a, n: Node("^", (a, number(n))), trees, st.integers(0, 3))
    return binary | power | st.builds(lambda a: Node("neg", (a,)), trees)


trees = st.recursive(leaves, grown, max_leaves=6)


def algebra(node: Node) -> sympy.Expr:
    values = [algebra(arg) for arg in node.args]
    rules = {
        "num": lambda: sympy.Rational(node.value.numerator, node.value.denominator),
        "sym": lambda: sympy.Symbol(node.name),
        "+": lambda: values[0] + values[1],
        "*": lambda: values[0] * values[1],
        "/": lambda: values[0] / values[1],
        "^": lambda: values[0] ** values[1],
        "neg": lambda: -values[0],
    }
    return rules[node.op]()


@given(trees, trees)
def test_it_agrees_with_exact_algebra(a: Node, b: Node) -> None:
    try:
        same = same_rational_function(a, b, symbols(a) | symbols(b))
    except NotRational:
        return  # a pole everywhere, such as 1/(x - x), or a power of 0
    assert same == (sympy.cancel(sympy.together(algebra(a) - algebra(b))) == 0)


@given(trees, trees)
def test_rewritten_by_the_distributive_law_it_is_the_same(a: Node, b: Node) -> None:
    two = number(2)
    square = Node("^", (Node("+", (a, b)), two))
    parts = Node("+", (Node("^", (a, two)), Node("^", (b, two))))
    written_out = Node("+", (parts, Node("*", (two, Node("*", (a, b))))))
    with contextlib.suppress(NotRational):
        assert same_rational_function(square, written_out, symbols(a) | symbols(b))


def test_exponents_of_any_size_cost_nothing() -> None:
    huge = number(10**4000)
    tower = Node("^", (x, huge))
    assert same_rational_function(tower, tower, frozenset("x"))
    assert not same_rational_function(tower, Node("*", (tower, x)), frozenset("x"))


@pytest.mark.parametrize("op", ["sin", "root", "abs", "!"])
def test_what_is_no_rational_function_is_left_to_others(op: str) -> None:
    node = Node(op, (x, number(2)) if op == "root" else (x,))
    with pytest.raises(NotRational):
        same_rational_function(node, x, frozenset("x"))
