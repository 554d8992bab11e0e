"""reasoning-gym's own scorers, kept from running what a completion holds."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from rlvr_platform.config.verifiers_more import GymVerifier
from rlvr_platform.errors import ConfigError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding, share
from rlvr_platform.verifiers.text_answer import after_reasoning, text_answer

EVALUATES_LITERALS = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
"""Generators whose scorer calls `eval` on the answer."""
EVALUATES_MATHEMATICS = frozenset(
    {
        "countdown",
        "intermediate_integration",
        "polynomial_multiplication",
        "puzzle24",
        "simple_integration",
    }
)
"""Generators whose scorer calls SymPy's `parse_expr` on the answer, which is `eval` too."""
_TUPLES = frozenset({"arc_agi", "rearc"})
"""Generators whose scorer compares metadata with tuples, which JSON turned into lists."""
_ARITHMETIC = re.compile(r"[\w\s.,+*/^!()=-]*", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = frozenset(
    (
        "sin",
        "cos",
        "tan",
        "sec",
        "csc",
        "cot",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "exp",
        "log",
        "ln",
        "sqrt",
        "Abs",
        "pi",
    )
)

Scorer = Callable[[str, dict[str, Any]], float]


class GymScorer:
    """The score of the task's generator; correct when it is 1."""

    def __init__(self, config: GymVerifier) -> None:
        """Raises ConfigError when reasoning-gym is not installed or refuses the arguments."""
        self._config = config
        self._scorers: dict[str, Scorer] = {}
        _factory()
        for name in config.arguments:
            self._scorer(name)

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises ValueError when the metadata names no generator, or the score is no share."""
        metadata = options.get(self._config.column)
        if not isinstance(metadata, Mapping) or "source_dataset" not in metadata:
            raise ValueError(f"option {self._config.column!r} holds no reasoning-gym metadata")
        name = str(metadata["source_dataset"])
        scorer = self._scorer(name)
        answer = _answer(prediction)
        if not answer:
            return Finding(Outcome.NO_ANSWER, "", "no final answer")
        if not harmless(answer, name):
            return Finding(Outcome.WRONG, answer, f"{name}: not the kind of answer asked for")
        score = share(scorer(answer, _entry(gold, metadata, name)))
        outcome = Outcome.CORRECT if score == 1 else Outcome.WRONG
        shown = score if self._config.credit == "partial" else None
        return Finding(outcome, answer, f"{name}: score {score:.3g}", shown)

    def _scorer(self, name: str) -> Scorer:
        if name not in self._scorers:
            self._scorers[name] = _load_scorer(name, self._config.arguments.get(name, {}))
        return self._scorers[name]


def _load_scorer(name: str, arguments: Mapping[str, Any]) -> Scorer:
    factory = _factory()
    if name not in factory.DATASETS:
        raise ConfigError(f"reasoning_gym has no generator {name!r}")
    try:
        return factory.create_dataset(name, **arguments).score_answer
    except (TypeError, ValueError, AssertionError) as error:
        raise ConfigError(f"reasoning_gym {name} refuses {dict(arguments)}: {error}") from None


def _factory() -> ModuleType:
    try:
        importlib.import_module("reasoning_gym")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the package reasoning-gym is not installed: {error}",
            fix="pip install 'rlvr-platform[reasoning-gym]'",
        ) from None
    return importlib.import_module("reasoning_gym.factory")


def _answer(prediction: str) -> str:
    """The last answer tag or box, else all that follows the reasoning block, as it stands.

    Answers may be boards, whose lines and marks count.
    """
    answer = text_answer(prediction)
    return answer.text if answer.rule in ("box", "answer tag") else after_reasoning(prediction)


def _entry(gold: str, metadata: Mapping[str, Any], name: str) -> dict[str, Any]:
    known = _tuples(dict(metadata)) if name in _TUPLES else dict(metadata)
    return {"answer": gold, "metadata": known}


def harmless(answer: str, name: str) -> bool:
    """Whether the scorer of generator `name` can be given `answer` without running code of it."""
    if name in EVALUATES_MATHEMATICS:
        names = _NAME.findall(answer)
        return bool(_ARITHMETIC.fullmatch(answer)) and all(
            len(word) == 1 or word in _FUNCTIONS for word in names
        )
    if name in EVALUATES_LITERALS:
        # Without a parenthesis nothing can be called.
        return "(" not in answer or _is_literal(answer)
    return True


def _is_literal(answer: str) -> bool:
    try:
        ast.literal_eval(answer)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(entry) for entry in value)
    return {k: _tuples(v) for k, v in value.items()} if isinstance(value, dict) else value
