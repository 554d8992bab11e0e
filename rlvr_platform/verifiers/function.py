"""A function of the user's as the verifier."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sized
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from rlvr_platform.config.verifiers_more import FunctionVerifier
from rlvr_platform.errors import ConfigError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding, share

_WANTED = "True, False, a number from 0 to 1, or a Finding"


class UserFunction:
    """f(prediction, gold, options) gives True or False, a score in [0, 1], or a `Finding`.

    Anything else that it returns, and anything that it raises, is an error verdict.
    """

    def __init__(self, config: FunctionVerifier) -> None:
        """Raises ConfigError when the path leads to no function of three arguments."""
        self._path = config.path
        self._function = _load(config.path)

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises what the function raises; TypeError and ValueError for what it returns."""
        return self._finding(self._function(prediction, gold, dict(options)))

    def _finding(self, result: Any) -> Finding:
        if isinstance(result, Finding):
            return result
        if isinstance(result, bool | np.bool_):
            outcome = Outcome.CORRECT if result else Outcome.WRONG
            return Finding(outcome, "", self._path)
        try:
            score = share(result)
        except ValueError:
            raise TypeError(f"{self._path} returned {_shown(result)}, wanted {_WANTED}") from None
        outcome = Outcome.CORRECT if score == 1 else Outcome.WRONG
        return Finding(outcome, "", self._path, score)


def _shown(result: Any) -> str:
    length = f" of length {len(result)}" if isinstance(result, Sized) else ""
    return f"{type(result).__name__}{length} {result!r:.80}"


def _load(path: str) -> Callable[[str, str, dict[str, Any]], Any]:
    place, _, name = path.partition(":")
    function = getattr(_module(path, place), name, None)
    if not callable(function):
        raise ConfigError(f"{place} has no function {name!r}", "module:function")
    try:
        inspect.signature(function).bind("", "", {})
    except TypeError as error:
        raise ConfigError(
            f"{path} cannot be called with (prediction, gold, options): {error}",
            "def f(prediction: str, gold: str, options: dict) -> bool",
        ) from None
    except ValueError:
        pass  # Some functions written in C do not tell their arguments.
    return function


def _module(path: str, place: str) -> ModuleType:
    if place.endswith(".py"):
        return _from_file(Path(place).expanduser())
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the verifier function {path!r} cannot be imported: {error}",
            fix="install its package, put its folder on PYTHONPATH, or name its file: "
            "folder/file.py:function",
        ) from None


def _from_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise ConfigError(f"there is no file {file.absolute()}", "a Python file")
    name = f"rlvr_verifier_function_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
