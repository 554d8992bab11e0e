"""What docs/security.md names exists, and what it says of no single module's tests holds."""

import json
import re

import pytest

from rlvr_platform.cli.main import main
from rlvr_platform.config.experiment import ExperimentConfig
from tests.references import ROOT, names_of, references

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
REFERENCES = references(PAGE)
SECTIONS = set(re.findall(r"\]\(verifiers\.md#([\w-]+)\)", PAGE))


def test_there_is_something_to_check() -> None:
    assert len(REFERENCES) > 25
    assert len(SECTIONS) >= 2


@pytest.mark.parametrize(("path", "name"), REFERENCES)
def test_every_function_and_test_named_is_defined_there(path: str, name: str) -> None:
    assert name in names_of(path)


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_every_section_linked_to_is_there(section: str) -> None:
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs/verifiers.md").read_text(), re.M)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}
    assert section in anchors


@pytest.mark.parametrize("key", re.findall(r"`((?:model|sync|verifier)\.[\w.]+)[=:`]", PAGE))
def test_every_setting_named_is_in_the_schema(key: str) -> None:
    schema = json.dumps(ExperimentConfig.model_json_schema())
    assert all(f'"{part}"' in schema for part in key.split("."))


def test_escape_sequences_of_a_completion_do_not_reach_the_terminal(tmp_path, capfd) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\x9b31m42"
    file = tmp_path / "answers.jsonl"
    row = {"id": evil, "gold": "42", "prediction": evil, "expected": True, "class": evil}
    file.write_text(json.dumps(row) + "\n" + evil + "\n")
    for arguments in ([str(file)], ["--labelled", str(file)]):
        main(["grade", *arguments, "--verifier", "exact"])
        shown = "".join(capfd.readouterr())
        assert "42" in shown
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
