from pathlib import Path

from pydantic import BaseModel

from rlvr_platform.config.base import Section
from rlvr_platform.config.docs import configuration_markdown, sections
from rlvr_platform.config.experiment import ExperimentConfig

PAGE = Path(__file__).parents[3] / "docs/configuration.md"


def every_section(root: type[BaseModel]) -> set[type[BaseModel]]:
    """All subclasses of Section that pydantic itself reaches from the root."""
    reached = set(root.model_json_schema()["$defs"])
    return {c for c in Section.__subclasses__() if c.__name__ in reached}


def test_the_committed_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == configuration_markdown(), "run: make docs"


def test_every_section_stands_there_once():
    found = [section for _, section in sections()]
    assert len(found) == len(set(found))
    assert set(found) == {ExperimentConfig, *every_section(ExperimentConfig)}


def test_every_setting_has_a_row_of_four_cells():
    rows = [line for line in configuration_markdown().splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(section.model_fields) for _, section in sections())
    for row in rows:
        assert row.replace("\\|", "").count("|") == 5


def test_every_setting_is_explained():
    for _, section in sections():
        for name, field in section.model_fields.items():
            whole_section = isinstance(field.default, Section)
            explained = field.description or whole_section or name == "kind"
            assert explained, f"{section.__name__}.{name} has no description"
