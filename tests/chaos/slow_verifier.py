"""Verifiers for `verifier.use.kind=function` that are slower than any deadline."""

import time
import zlib
from collections.abc import Mapping
from typing import Any

LONGER_THAN_ANY_DEADLINE_S = 600.0


def sometimes(prediction: str, gold: str, options: Mapping[str, Any]) -> bool:
    """Right when equal; never comes back for one in twenty of the completions."""
    if prediction and zlib.crc32(f"{prediction}/{gold}".encode()) % 20 == 0:
        time.sleep(LONGER_THAN_ANY_DEADLINE_S)
    return prediction.strip() == gold


def always(prediction: str, gold: str, options: Mapping[str, Any]) -> bool:
    """Never comes back for a completion; answers when the gold answers are checked before."""
    if prediction:
        time.sleep(LONGER_THAN_ANY_DEADLINE_S)
    return False


def even_for_gold(prediction: str, gold: str, options: Mapping[str, Any]) -> bool:
    """Never comes back."""
    time.sleep(LONGER_THAN_ANY_DEADLINE_S)
    return False
