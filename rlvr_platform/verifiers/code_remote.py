"""The solution's process as the tests see it, and stand-ins for the objects that live there.

Results arrive as plain values. An object of a class of the solution's own stays there; comparing
it with a value of the tests is False and computing with it is refused, so that an object that
claims to equal everything gains nothing. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import builtins
import collections
import socket
import types
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any

from rlvr_platform.verifiers import code_wire
from rlvr_platform.verifiers.code_wire import WireError, decode, encode

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


class BrokenTestsError(Exception):
    """The tests cannot judge any solution."""


class SolutionError(Exception):
    """The solution raised what no test can expect, or broke the channel."""


class Solution:
    """The solution's process, as seen from here."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._functions: list[Callable[..., Any]] = []

    def load(self) -> None:
        """Wait until it is loaded. Raises BrokenTestsError when the setup does not load."""
        # This first message is sent before any code of the solution runs: it cannot be forged.
        try:
            setup = code_wire.receive(self._channel)
        except EOFError:
            raise BrokenTestsError("the process ended before the solution began") from None
        if "raised" in setup:
            raise BrokenTestsError(f"the setup does not load: {_described(setup)}")
        loaded = code_wire.receive(self._channel)
        if "raised" in loaded:
            raise SolutionError(_described(loaded))

    def named(self, name: str) -> dict[str, Any]:
        """{name: value}, or nothing when the solution has no such global name."""
        try:
            return {name: self._request("global", name, [], {})["value"]}
        except AttributeError:
            return {}

    def do(self, operation: str, on: int, *args: Any, **kwargs: Any) -> Any:
        """The result of an operation on one of its objects; mutable arguments are updated."""
        reply = self._request(operation, on, list(args), kwargs)
        for index, value in reply["changed"]:
            _update(args[index], value)
        return reply["value"]

    def _request(
        self, operation: str, on: int | str, args: list[Any], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        encoded = [encode(item, self._refer) for item in args]
        named = {key: encode(item, self._refer) for key, item in kwargs.items()}
        request = {"do": operation, "on": on, "args": encoded, "kwargs": named}
        code_wire.send(self._channel, request)
        while "do" in (message := code_wire.receive(self._channel)):
            code_wire.send(self._channel, self._call_back(message))
        if "raised" in message:
            raise _exception(message)
        changes = message.get("changed", [])
        return {
            "value": decode(message.get("value"), self._resolve),
            "changed": [(index, decode(value, self._resolve)) for index, value in changes],
        }

    def _call_back(self, message: dict[str, Any]) -> dict[str, Any]:
        """Call a function that the tests passed to the solution."""
        try:
            function = self._functions[message["on"]]
            args = [decode(item, self._resolve) for item in message["args"]]
            kwargs = {key: decode(item, self._resolve) for key, item in message["kwargs"].items()}
            return {"value": encode(function(*args, **kwargs), self._refer)}
        except Exception as error:
            return {"raised": [type(error).__name__], "text": str(error)}

    def _refer(self, value: Any) -> Any:
        if isinstance(value, SolutionObject):
            return {"solution": _identity(value)}
        name = getattr(value, "__name__", None)
        if isinstance(name, str) and getattr(builtins, name, None) is value:
            return {"builtin": name}
        if isinstance(value, KeysView | ValuesView | ItemsView):
            return encode(list(value), self._refer)
        if isinstance(value, Iterator):
            return {"iterator": self._register(value.__next__)}
        if isinstance(value, _FUNCTIONS):
            return {"tests": self._register(value)}
        raise BrokenTestsError(
            f"the tests pass a {type(value).__name__} of their own, which cannot travel; "
            "classes that solutions use belong into `setup`"
        )

    def _register(self, function: Callable[..., Any]) -> int:
        self._functions.append(function)
        return len(self._functions) - 1

    def _resolve(self, tag: str, payload: Any) -> Any:
        if tag != "solution" or not isinstance(payload, int):
            raise WireError(f"unknown tag {tag!r}")
        return SolutionObject(self, payload)


class SolutionObject:
    """A stand-in for an object that lives in the solution's process.

    Forwards what tests do with objects. Equality reaches the solution only between two of its own
    objects; arithmetic, order and membership never do.
    """

    def __init__(self, solution: Solution, identity: int) -> None:
        object.__setattr__(self, "_here", (solution, identity))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _do("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _do("setattr", self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _do("call", self, *args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return _do("getitem", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _do("setitem", self, key, value)

    def __iter__(self) -> Any:
        return _do("iter", self)

    def __next__(self) -> Any:
        return _do("next", self)

    def __len__(self) -> int:
        return _do("len", self)

    def __bool__(self) -> bool:
        return _do("bool", self)

    def __str__(self) -> str:
        return _do("str", self)

    def __repr__(self) -> str:
        return _do("repr", self)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, SolutionObject) and bool(_do("isinstance", self, value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SolutionObject) and bool(_do("eq", self, other))

    def __hash__(self) -> int:
        return _identity(self)


def _do(operation: str, target: SolutionObject, *args: Any, **kwargs: Any) -> Any:
    solution, identity = object.__getattribute__(target, "_here")
    return solution.do(operation, identity, *args, **kwargs)


def _identity(target: SolutionObject) -> int:
    return object.__getattribute__(target, "_here")[1]


def _update(target: Any, value: Any) -> None:
    """Make a mutable argument what the solution made of its copy."""
    if isinstance(target, list | bytearray) and isinstance(value, list | bytearray):
        target[:] = value
    elif isinstance(target, dict | set) and isinstance(value, dict | set):
        target.clear()
        target.update(value)
    elif isinstance(target, collections.deque) and isinstance(value, collections.deque):
        target.clear()
        target.extend(value)


def _exception(message: dict[str, Any]) -> Exception:
    """What the solution raised, as the nearest built-in exception."""
    text = str(message.get("text"))
    names = message["raised"] if isinstance(message["raised"], list) else []
    for name in map(str, names):
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(text)
            except TypeError:
                continue
    return SolutionError(_described(message))


def _described(message: dict[str, Any]) -> str:
    names = message["raised"]
    kind = names[0] if isinstance(names, list) and names else "unknown"
    return f"{kind}: {message.get('text')}"[:300]
