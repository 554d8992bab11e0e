import json
import math
import socket
import threading
from collections import OrderedDict, deque, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.verifiers.code_wire import WireError, decode, encode, receive, send


def refuse(*_):
    raise WireError("a reference")


atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.fractions()
    | st.decimals(allow_nan=False)
)
values = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.sets(atoms)
        | st.frozensets(atoms)
        | st.dictionaries(atoms, inner)
        | st.lists(inner).map(deque)
    ),
    max_leaves=20,
)


def shape(value):
    """Types all the way down, which == ignores: 1, 1.0 and True are equal."""
    if isinstance(value, dict):
        items = sorted(((shape(k), shape(v)) for k, v in value.items()), key=repr)
        return dict, items
    if isinstance(value, list | tuple | deque):
        return type(value), [shape(item) for item in value]
    if isinstance(value, set | frozenset):
        return type(value), sorted(map(shape, value), key=repr)
    return type(value), repr(value)


@given(values)
def test_values_arrive_as_they_left(value):
    arrived = decode(json.loads(json.dumps(encode(value, refuse))), refuse)
    assert arrived == value
    assert shape(arrived) == shape(value)


def test_numbers_of_any_size_and_nan_arrive():
    for value in (10**10_000, -(10**20), 2**53, float("inf"), range(0, 10**30, 7)):
        assert decode(json.loads(json.dumps(encode(value, refuse))), refuse) == value
    assert math.isnan(decode(json.loads(json.dumps(encode(math.nan, refuse))), refuse))


class Always(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


Point = namedtuple("Point", "x y")
Colour = IntEnum("Colour", "RED")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Always(3), 3),
        (Point(1, 2), (1, 2)),
        (Colour.RED, 1),
        (OrderedDict(a=1), {"a": 1}),
        ([Always(3)], [3]),
        (bytearray(b"x"), bytearray(b"x")),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("1.50"), Decimal("1.50")),
        (dict, dict),
    ],
)
def test_a_subclass_arrives_as_its_base(value, plain):
    arrived = decode(json.loads(json.dumps(encode(value, refuse))), refuse)
    assert type(arrived) is type(plain)
    assert repr(arrived) == repr(plain)


@pytest.mark.parametrize("value", [object(), print, Always, (x for x in ()), [object()]])
def test_nothing_else_travels(value):
    with pytest.raises(WireError, match="a reference"):
        encode(value, refuse)


@pytest.mark.parametrize(
    "data",
    [
        *({}, {"a": 1, "b": 2}, {"eval": "1"}, {"type": "eval"}, {"int": "x"}, {"int": 5}),
        *({"dict": [[[], 1]]}, {"dict": 3}, {"set": [[]]}, {"fraction": ["0x1", "0x0"]}),
        *({"decimal": "x"}, {"bytes": "zz"}, {"tuple": None}, {"complex": [1, 2, 3]}),
    ],
)
def test_what_encode_never_writes_is_refused(data):
    with pytest.raises(WireError):
        decode(data, refuse)


def test_messages_of_megabytes_pass_and_longer_ones_are_refused():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        message = {"value": "x" * 5_000_000}
        sender = threading.Thread(target=send, args=(ours, message))
        sender.start()
        assert receive(theirs) == message
        sender.join()
        with pytest.raises(WireError, match="too large"):
            send(ours, {"value": "x" * 20_000_000})


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", EOFError),
        (b"\0\0", EOFError),
        (b"\0\0\0\5{}", EOFError),
        (b"\xff\xff\xff\xffx", WireError),
        (b"\0\0\0\2[]", WireError),
        (b"\0\0\0\2{x", WireError),
        (b"\0\0\0\2\xff\xff", WireError),
    ],
)
def test_anything_but_a_message_is_refused(sent, error):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(sent)
        ours.close()
        with pytest.raises(error):
            receive(theirs)
