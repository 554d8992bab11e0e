import datetime
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.config.data import (
    ArithmeticSource,
    Columns,
    HuggingFaceSource,
    JsonlSource,
    ParquetSource,
    ReasoningGymSource,
)
from rlvr_platform.data.columns import Table, gold_text, to_records
from rlvr_platform.data.sources import load_records
from rlvr_platform.errors import ConfigError, InputError

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
ROWS = [
    {"prompt": "1+1", "answer": 2, "choices": ["1", "2"]},
    {"prompt": "1/2", "answer": 0.5, "choices": []},
    {"prompt": "72", "answer": 72.0, "choices": ["72"]},
    {"prompt": "x", "answer": " x ", "choices": []},
]
GOLDS = ["2", "0.5", "72", "x"]
WITH_OPTIONS = Columns(options=("choices",))


def write(path, lines):
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    return str(path)


def test_every_kind_of_table_gives_the_same_records(tmp_path):
    import datasets
    import pyarrow
    import pyarrow.parquet

    rows = [{**row, "answer": gold} for row, gold in zip(ROWS, GOLDS, strict=True)]
    write(tmp_path / "a.jsonl", ROWS)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    one = datasets.Dataset.from_list(rows)
    one.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"dev": one}).save_to_disk(tmp_path / "many")
    sources = [
        JsonlSource(path=str(tmp_path / "a.jsonl"), columns=WITH_OPTIONS),
        ParquetSource(path=str(tmp_path / "a.parquet"), columns=WITH_OPTIONS),
        HuggingFaceSource(name=str(tmp_path / "one"), columns=WITH_OPTIONS),
        HuggingFaceSource(name=str(tmp_path / "many"), split="dev", columns=WITH_OPTIONS),
    ]
    for source in sources:
        records = load_records(source)
        assert [r.text for r in records] == [r["prompt"] for r in ROWS]
        assert [r.gold for r in records] == GOLDS
        assert [dict(r.options) for r in records] == [{"choices": r["choices"]} for r in ROWS]


def test_origin_names_file_and_line_counting_blank_lines(tmp_path):
    path = write(tmp_path / "a.jsonl", ["", ROWS[0], "", ROWS[1]])
    assert [r.origin for r in load_records(JsonlSource(path=path))] == [
        f"{path} line 2",
        f"{path} line 4",
    ]


def test_all_problems_of_a_file_are_reported_together(tmp_path):
    path = write(
        tmp_path / "bad.jsonl",
        [
            ROWS[0],
            "{oops",
            {"question": "?", "answer": 1},
            "[1]",
            {"prompt": "p", "answer": None},
            {"prompt": "", "answer": 1},
            '{"prompt": "p", "answer": NaN}',
        ],
    )
    with pytest.raises(InputError) as caught:
        load_records(JsonlSource(path=path))
    message = str(caught.value)
    assert "line 2: not valid JSON" in message
    assert "line 3: no column 'prompt' (columns there: answer, question)" in message
    assert "line 4: a JSON list, not an object" in message
    assert "lines 5, 7: column 'answer' holds no text and no finite number" in message
    assert "line 6: column 'prompt' holds no text" in message


def test_gold_pattern_takes_the_answer_out_of_a_solution(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"prompt": "p", "answer": "so 3*4\n#### 1,200 "}])
    columns = Columns(gold_pattern=r"####\s*(.+)$")
    assert load_records(JsonlSource(path=path, columns=columns))[0].gold == "1,200"


def test_rows_without_the_gold_pattern_are_listed_up_to_twenty(tmp_path):
    rows = [{"prompt": "p", "answer": "#### 1"}] + [{"prompt": "p", "answer": "none"}] * 30
    source = JsonlSource(
        path=write(tmp_path / "a.jsonl", rows), columns=Columns(gold_pattern="#### (.*)")
    )
    listed = ", ".join(str(n) for n in range(2, 22))
    with pytest.raises(InputError, match=f"lines {listed} and 10 more: gold_pattern"):
        load_records(source)


@pytest.mark.parametrize("pattern, match", [("(", "no regular expression"), ("a", "no group")])
def test_an_unusable_gold_pattern_is_a_configuration_error(tmp_path, pattern, match):
    path = write(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(ConfigError, match=match):
        load_records(JsonlSource(path=path, columns=Columns(gold_pattern=pattern)))


def test_a_column_that_no_row_has_is_said_once_with_those_there(tmp_path):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS[:2]), tmp_path / "a.parquet")
    source = ParquetSource(path=str(tmp_path / "a.parquet"), columns=Columns(gold="solution"))
    with pytest.raises(InputError, match=r"every row: no column 'solution'.*answer, choices"):
        load_records(source)


@pytest.mark.parametrize("kind", [JsonlSource, ParquetSource])
def test_a_missing_file_is_named(tmp_path, kind):
    with pytest.raises(InputError, match=r"nowhere.x does not exist"):
        load_records(kind(path=str(tmp_path / "nowhere.x")))


def test_an_empty_data_set_is_an_error(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n\n")
    with pytest.raises(InputError, match=r"holds no records"):
        load_records(JsonlSource(path=str(tmp_path / "a.jsonl")))


def test_a_file_that_is_not_parquet_is_an_error(tmp_path):
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(InputError, match=r"as Parquet"):
        load_records(ParquetSource(path=str(tmp_path / "a.parquet")))


def test_a_split_that_does_not_exist_names_those_that_do(tmp_path):
    import datasets

    data = datasets.DatasetDict({"dev": datasets.Dataset.from_list([{"prompt": "p"}])})
    data.save_to_disk(tmp_path / "d")
    with pytest.raises(InputError, match=r"no split 'train'(.|\n)*one of dev"):
        load_records(HuggingFaceSource(name=str(tmp_path / "d")))


@given(st.integers(-(10**18), 10**18))
def test_whole_numbers_stay_whole_as_gold(n):
    assert gold_text(n) == str(n)
    assert gold_text(float(n)) == str(int(float(n)))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_gold_of_a_float_is_plain_and_reads_back_to_it(x):
    text = gold_text(x)
    assert float(text) == x
    assert "e" not in text.lower()


def test_arithmetic_gives_as_many_records_as_asked():
    assert len(load_records(ArithmeticSource(count=77))) == 77


def test_reasoning_gym_gives_distinct_seeded_tasks_with_answers():
    pytest.importorskip("reasoning_gym")
    source = ReasoningGymSource(dataset="basic_arithmetic", count=30, seed=3)
    records = load_records(source)
    assert len({r.text for r in records}) == 30
    assert all(r.gold for r in records)
    assert records == load_records(source)


def test_reasoning_gym_names_near_generators_and_refused_options():
    pytest.importorskip("reasoning_gym")
    with pytest.raises(InputError, match=r"did you mean(.|\n)*basic_arithmetic"):
        load_records(ReasoningGymSource(dataset="basic_arithmetics", count=3))
    with pytest.raises(InputError, match=r"refuses the options"):
        load_records(ReasoningGymSource(dataset="basic_arithmetic", options={"no_such": 1}))


def test_reasoning_gym_without_the_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "reasoning_gym", None)
    with pytest.raises(InputError, match=r"extra `reasoning-gym`"):
        load_records(ReasoningGymSource(dataset="basic_arithmetic"))


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the sibling folder shared/data")
@pytest.mark.parametrize(
    "file, columns, count, first",
    [
        (
            "gsm8k_train.jsonl",
            Columns(prompt="question", gold_pattern=r"####\s*(.+)$"),
            7473,
            "72",
        ),
        ("svamp.jsonl", Columns(prompt="Body", gold="Answer"), None, "145"),
        ("amc23.jsonl", Columns(prompt="problem"), 40, "27"),
    ],
)
def test_public_benchmarks_load_as_they_are(file, columns, count, first):
    records = load_records(JsonlSource(path=str(SHARED / file), columns=columns))
    assert records[0].gold == first
    assert count in (None, len(records))


@pytest.mark.parametrize("value", [datetime.date(2026, 1, 2), b"raw", {"nested": {1, 2}}])
def test_an_option_that_a_checkpoint_could_not_hold_is_refused(value):
    rows = [(1, {"prompt": "1+1=", "answer": "2", "choices": value})]
    with pytest.raises(InputError, match=r"'choices' holds a .* that JSON cannot carry"):
        to_records(Table("a.parquet", "row", rows), WITH_OPTIONS)


def test_options_are_as_a_checkpoint_would_give_them_back():
    rows = [(1, {"prompt": "1+1=", "answer": "2", "choices": {"grid": ((1, 2), (3, 4))}})]
    (record,) = to_records(Table("gym", "task", rows), WITH_OPTIONS)
    assert record.options == {"choices": {"grid": [[1, 2], [3, 4]]}}
