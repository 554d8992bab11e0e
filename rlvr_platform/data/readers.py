"""One reader a source kind: each gives a table of rows, columns not yet interpreted."""

from __future__ import annotations

import difflib
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from rlvr_platform.config.data import Columns, HuggingFaceSource, ReasoningGymSource
from rlvr_platform.data.columns import Broken, Row, Table
from rlvr_platform.errors import InputError

REASONING_GYM_COLUMNS = Columns(prompt="question", gold="answer", options=("metadata",))


def read_jsonl(path: str) -> Table:
    """One JSON object a line, UTF-8; blank lines are skipped."""
    return Table(path, "line", _jsonl_rows(_existing_file(path)))


def read_parquet(path: str, columns: Columns) -> Table:
    """The columns of a Parquet file that `columns` names."""
    import pyarrow
    import pyarrow.parquet

    wanted = {columns.prompt, columns.gold, *columns.options}
    try:
        file = pyarrow.parquet.ParquetFile(_existing_file(path))
        present = [name for name in file.schema_arrow.names if name in wanted]
        # With a column missing, all names are read so that the message can list them.
        rows = file.read(present if len(present) == len(wanted) else None).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"cannot read {path} as Parquet: {error}") from None
    return Table(path, "row", enumerate(rows, start=1))


def read_huggingface(source: HuggingFaceSource) -> Table:
    """A data set of the hub or of a local folder, through the package `datasets`."""
    import datasets

    saved = Path(source.name)
    try:
        if (saved / "dataset_dict.json").exists() or (saved / "state.json").exists():
            data = datasets.load_from_disk(source.name)
            data = _split(data, source) if isinstance(data, datasets.DatasetDict) else data
        else:
            data = datasets.load_dataset(source.name, source.subset, split=source.split)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise InputError(
            f"cannot load split {source.split!r} of the dataset {source.name}: {error}",
            "a local dataset folder, or the name of a dataset on a hub that this machine can reach",
        ) from None
    return Table(f"{source.name} [{source.split}]", "row", enumerate(data, start=1))


def read_reasoning_gym(source: ReasoningGymSource) -> Table:
    """`count` distinct tasks of one generator."""
    return Table(f"reasoning_gym {source.dataset}", "row", enumerate(_gym_rows(source), start=1))


def _existing_file(path: str) -> Path:
    file = Path(path).expanduser()
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise InputError(f"the data file {file.absolute()} {what}", "a readable file")
    return file


def _jsonl_rows(file: Path) -> Iterator[tuple[int, Row]]:
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _json_row(line)
    except OSError as error:
        raise InputError(f"cannot read {file}: {error}") from None


def _json_row(line: bytes) -> Row:
    try:
        row = json.loads(line)
    except UnicodeDecodeError:
        return Broken("not UTF-8")
    except json.JSONDecodeError as error:
        return Broken(f"not valid JSON ({error.msg} at column {error.colno})")
    return row if isinstance(row, dict) else Broken(f"a JSON {type(row).__name__}, not an object")


def _split(data: Any, source: HuggingFaceSource) -> Any:
    if source.split not in data:
        raise InputError(
            f"the dataset {source.name} has no split {source.split!r}", f"one of {', '.join(data)}"
        )
    return data[source.split]


def _gym_rows(source: ReasoningGymSource) -> list[Row]:
    gym = _import_reasoning_gym()
    known = importlib.import_module("reasoning_gym.factory").DATASETS
    if source.dataset not in known:
        near = difflib.get_close_matches(source.dataset, known, n=3, cutoff=0.4)
        raise InputError(
            f"reasoning_gym has no generator {source.dataset!r}",
            f"did you mean {' or '.join(near)}?" if near else f"one of {', '.join(sorted(known))}",
        )
    # Generators repeat themselves on small task spaces, so more are offered than asked for.
    size = 4 * source.count
    try:
        tasks = gym.create_dataset(source.dataset, size=size, seed=source.seed, **source.options)
    except (TypeError, ValueError, AssertionError) as error:
        raise InputError(
            f"reasoning_gym {source.dataset} refuses the options {source.options}: {error}"
        ) from None
    distinct: dict[str, Row] = {}
    for i in range(size):
        task = tasks[i]
        distinct.setdefault(task["question"], task)
        if len(distinct) == source.count:
            return list(distinct.values())
    raise InputError(
        f"reasoning_gym {source.dataset} gave {len(distinct)} distinct tasks in {size} draws",
        f"{source.count} tasks",
        f"set count to at most {len(distinct)}, or options that make the task space larger",
    )


def _import_reasoning_gym() -> ModuleType:
    try:
        return importlib.import_module("reasoning_gym")
    except ModuleNotFoundError as error:
        raise InputError(
            f"the package reasoning-gym is not installed: {error}",
            "the extra `reasoning-gym`",
            "pip install 'rlvr-platform[reasoning-gym]'",
        ) from None
