"""How tests and solution talk, each in a process of its own: JSON messages with plain values.

Only values of built-in types travel, as what they are by value: a subclass arrives as its base, so
that no comparison of the solution's making reaches the tests. Everything else stays where it is
and travels as a reference. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import json
import socket
import struct
from collections import deque
from collections.abc import Callable, Collection
from decimal import Decimal
from fractions import Fraction
from typing import Any

_LONGEST_MESSAGE = 16 << 20
_SMALL = 1 << 53
_LENGTH = struct.Struct("!I")
_SEQUENCES: dict[str, Callable[..., Collection[Any]]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
}
TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, object)
}
"""Types that travel by name."""

Refer = Callable[[Any], Any]
Resolve = Callable[[str, Any], Any]


class WireError(ValueError):
    """What came over the channel is not a message, or a value is too large for one."""


def encode(value: Any, refer: Refer) -> Any:
    """`value` as JSON; `refer` gives a reference for what cannot travel."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < _SMALL else {"int": hex(value)}
    if isinstance(value, list):
        return [encode(item, refer) for item in value]
    if isinstance(value, dict):
        return {"dict": [[encode(k, refer), encode(v, refer)] for k, v in value.items()]}
    for kind in (tuple, set, frozenset, deque):
        if isinstance(value, kind):
            return {kind.__name__: [encode(item, refer) for item in value]}
    return _encode_atom(value, refer)


def _encode_atom(value: Any, refer: Refer) -> Any:
    if isinstance(value, bytes | bytearray):
        tag = "bytes" if isinstance(value, bytes) else "bytearray"
        return {tag: value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, range):
        return {"range": [hex(value.start), hex(value.stop), hex(value.step)]}
    if isinstance(value, Fraction):
        return {"fraction": [hex(value.numerator), hex(value.denominator)]}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, type) and TYPES.get(value.__name__) is value:
        return {"type": value.__name__}
    return refer(value)


def decode(data: Any, resolve: Resolve) -> Any:
    """The value `encode` was given; `resolve(tag, payload)` is asked about references.

    Raises WireError for anything `encode` does not produce.
    """
    try:
        return _decode(data, resolve)
    except WireError:
        raise
    except (TypeError, ValueError, KeyError, ArithmeticError) as error:
        raise WireError(f"not a value: {error}") from None


def _decode(data: Any, resolve: Resolve) -> Any:
    if isinstance(data, list):
        return [_decode(item, resolve) for item in data]
    if not isinstance(data, dict):
        return data
    ((tag, payload),) = data.items()
    if tag == "dict":
        return {_decode(key, resolve): _decode(value, resolve) for key, value in payload}
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](_decode(item, resolve) for item in payload)
    if tag in _ATOMS:
        return _ATOMS[tag](payload)
    return resolve(tag, payload)


def _whole(text: Any) -> int:
    return int(text, 16)


_ATOMS: dict[str, Callable[[Any], Any]] = {
    "int": _whole,
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "complex": lambda parts: complex(*parts),
    "range": lambda parts: range(*map(_whole, parts)),
    "fraction": lambda parts: Fraction(*map(_whole, parts)),
    "decimal": Decimal,
    "type": TYPES.__getitem__,
}


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Raises WireError when the message is too long."""
    body = json.dumps(message).encode("ascii")
    if len(body) > _LONGEST_MESSAGE:
        raise WireError("a value is too large to compare")
    channel.sendall(_LENGTH.pack(len(body)) + body)


def receive(channel: socket.socket) -> dict[str, Any]:
    """Raises EOFError when the other side is gone, WireError when it sends anything else."""
    (length,) = _LENGTH.unpack(_exactly(channel, _LENGTH.size))
    if length > _LONGEST_MESSAGE:
        raise WireError("a message is too long")
    try:
        message = json.loads(_exactly(channel, length))
    except ValueError:
        raise WireError("not a message") from None
    if not isinstance(message, dict):
        raise WireError("not a message")
    return message


def _exactly(channel: socket.socket, length: int) -> bytes:
    chunks = []
    while length:
        chunk = channel.recv(min(length, 1 << 20))
        if not chunk:
            raise EOFError("the solution's process ended")
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)
