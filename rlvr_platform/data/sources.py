"""Reads any prompt source into records; everything wrong with it is reported together."""

from __future__ import annotations

from rlvr_platform.config.data import (
    ArithmeticSource,
    HuggingFaceSource,
    JsonlSource,
    ParquetSource,
    ReasoningGymSource,
    SingleSource,
)
from rlvr_platform.data import readers
from rlvr_platform.data.arithmetic import distinct_tasks
from rlvr_platform.data.columns import to_records
from rlvr_platform.data.records import Record


def load_records(source: SingleSource) -> list[Record]:
    """Every record of `source`, in its own order.

    Raises InputError when the source is missing, empty or has bad rows (all of them named),
    and ConfigError when the configuration of the source makes no sense.
    """
    match source:
        case ArithmeticSource():
            return distinct_tasks(source.families, source.count, source.seed, source.split)
        case JsonlSource():
            return to_records(readers.read_jsonl(source.path), source.columns)
        case ParquetSource():
            return to_records(readers.read_parquet(source.path, source.columns), source.columns)
        case HuggingFaceSource():
            return to_records(readers.read_huggingface(source), source.columns)
        case ReasoningGymSource():
            return to_records(readers.read_reasoning_gym(source), readers.REASONING_GYM_COLUMNS)
