"""What docs/methods.md names exists: functions, tests, settings, configurations."""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.loader import check_tree, merge, read_tree
from tests.references import ROOT, names_of, references

PAGE = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", PAGE, flags=re.M | re.S))
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)


def sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The section classes behind a field's annotation, every member of a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from sections(argument)


def fields_at(key: str) -> list[Any]:
    """The annotations that `a.b.c` can stand for, with their limits; empty when there is none."""
    level: list[type[BaseModel]] = [ExperimentConfig]
    found: list[Any] = []
    for part in key.split("."):
        fields = [c.model_fields[part] for c in level if part in c.model_fields]
        found = [Annotated[field.annotation, field] for field in fields]
        level = [section for field in fields for section in sections(field.annotation)]
    return found


def accepts(annotation: Any, value: Any) -> bool:
    try:
        TypeAdapter(annotation).validate_json(json.dumps(value))
    except ValidationError:
        return False
    return True


REFERENCES = references(PAGE)
SETTINGS = sorted(
    {
        code
        for code in CODE
        if re.fullmatch(r"[a-z_]+(\.[a-z_0-9]+)+(=\S+)?", code)
        and code.split(".")[0] in ExperimentConfig.model_fields
    }
)
CONFIGURATIONS = sorted(set(re.findall(r"\bconfigs/[\w./-]*[\w/]", PAGE)))


def test_there_is_something_to_check() -> None:
    assert len([path for path, _ in REFERENCES if path.startswith("tests/")]) > 80
    assert len(SETTINGS) > 40
    assert len(CONFIGURATIONS) >= 10
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize(("path", "name"), REFERENCES)
def test_every_function_and_test_named_is_defined_there(path: str, name: str) -> None:
    assert name in names_of(path)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_named_is_in_the_schema_and_takes_its_value(setting: str) -> None:
    key, equals, value = setting.partition("=")
    found = fields_at(key)
    assert found
    assert not equals or any(accepts(field, yaml.safe_load(value)) for field in found)


@pytest.mark.parametrize("path", CONFIGURATIONS)
def test_every_configuration_named_exists(path: str) -> None:
    assert any((ROOT / path).glob("*.yaml")) if path.endswith("/") else (ROOT / path).is_file()


@pytest.mark.parametrize("block", BLOCKS)
def test_every_example_is_a_legal_change_of_the_development_job(block: str) -> None:
    base = read_tree(ROOT / "configs/dev/arithmetic.yaml")
    assert check_tree(merge(base, yaml.safe_load(block)), "the example")
