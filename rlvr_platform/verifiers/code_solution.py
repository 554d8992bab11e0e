"""The solution's side of assert tests: loads it, then does what the tests ask of its names.

Nothing here is trusted: the solution runs in this process and may answer whatever it likes. It
sees names, arguments and operations, never what a result is compared with.
"""

from __future__ import annotations

import builtins
import json
import operator
import socket
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from rlvr_platform.verifiers import code_wire
from rlvr_platform.verifiers.code_wire import WireError, decode, encode

_MUTABLE = (list, dict, set, bytearray, deque)
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda function, *args, **kwargs: function(*args, **kwargs),
    "getattr": getattr,
    "setattr": setattr,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "iter": iter,
    "next": next,
    "len": len,
    "bool": bool,
    "str": str,
    "repr": repr,
    "eq": operator.eq,
    "isinstance": lambda kind, value: isinstance(value, kind),
}


def serve(channel: socket.socket, source: str) -> None:
    """Load the `setup` and `solution` in `source` (JSON) and serve until the tests are over."""
    texts = json.loads(source)
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    server = _Server(channel, module)
    for part in ("setup", "solution"):
        error = server.load(texts[part], part)
        code_wire.send(channel, {"loaded": part, **error})
        if error:
            return
    try:
        while True:
            server.answer(code_wire.receive(channel))
    except EOFError:
        return


class _Server:
    def __init__(self, channel: socket.socket, module: types.ModuleType) -> None:
        self._channel, self._module = channel, module
        self._objects: list[Any] = []
        self._ids: dict[int, int] = {}

    def load(self, text: str, part: str) -> dict[str, Any]:
        """Run a text in the module; empty, or what it raised."""
        try:
            code = compile(text, f"{part}.py", "exec", dont_inherit=True)
            exec(code, self._module.__dict__)
        except BaseException as error:
            return _raised(error)
        return {}

    def answer(self, request: dict[str, Any]) -> None:
        """Do one operation and send its result, or what it raised."""
        try:
            reply = self._do(**request)
        except BaseException as error:
            reply = _raised(error)
        try:
            code_wire.send(self._channel, reply)
        except (WireError, RecursionError) as error:
            code_wire.send(self._channel, _raised(error))

    def _do(self, do: str, on: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        if do == "global":
            return {"value": encode(getattr(self._module, on), self._refer)}
        positional = [decode(item, self._resolve) for item in args]
        named = {name: decode(item, self._resolve) for name, item in kwargs.items()}
        result = _OPERATIONS[do](self._objects[on], *positional, **named)
        after = [
            [i, encode(value, self._refer)]
            for i, value in enumerate(positional)
            if isinstance(value, _MUTABLE)
        ]
        changed = [[i, value] for i, value in after if value != args[i]]
        return {"value": encode(result, self._refer), "changed": changed}

    def _refer(self, value: Any) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy and isinstance(value, numpy.generic):
            return encode(value.item(), self._refer)
        if id(value) not in self._ids:
            self._ids[id(value)] = len(self._objects)
            self._objects.append(value)
        return {"solution": self._ids[id(value)]}

    def _resolve(self, tag: str, payload: Any) -> Any:
        if tag == "solution":
            return self._objects[payload]
        if tag == "builtin":
            return getattr(builtins, payload)
        if tag == "tests":
            return self._callback(payload)
        if tag == "iterator":
            return _iterate(self._callback(payload))
        raise WireError(f"unknown tag {tag!r}")

    def _callback(self, identity: int) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            encoded = [encode(item, self._refer) for item in args]
            named = {name: encode(item, self._refer) for name, item in kwargs.items()}
            code_wire.send(
                self._channel, {"do": "call", "on": identity, "args": encoded, "kwargs": named}
            )
            while "do" in (message := code_wire.receive(self._channel)):
                self.answer(message)
            if "raised" in message:
                raise _exception(message)
            return decode(message["value"], self._resolve)

        return call


def _iterate(following: Callable[[], Any]) -> Iterator[Any]:
    while True:
        try:
            value = following()
        except StopIteration:
            return
        yield value


def _raised(error: BaseException) -> dict[str, Any]:
    names = [kind.__name__ for kind in type(error).__mro__]
    return {"raised": names, "text": str(error)[:500]}


def _exception(message: dict[str, Any]) -> BaseException:
    kind = getattr(builtins, message["raised"][0], Exception)
    return kind(message["text"])
