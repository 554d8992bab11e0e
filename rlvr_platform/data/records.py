"""What every prompt source yields: one verifiable task before rendering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """A task's text and its reference answer, with the place it came from."""

    text: str
    """The task as the source states it, not rendered."""
    gold: str
    """The reference answer."""
    origin: str
    """Where it stands, for messages: `train.jsonl line 12`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Extra fields for the verifier."""
