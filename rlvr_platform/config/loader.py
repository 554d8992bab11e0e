"""From YAML files and command-line overrides to a checked configuration."""

from __future__ import annotations

import difflib
import json
import re
import types
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.rules import violations
from rlvr_platform.errors import ConfigError
from rlvr_platform.secrets import masked, secret_problems


class _Loader(yaml.SafeLoader):
    """YAML with two traps removed: `1e-6` is a number, and a repeated key is an error."""


class _Dumper(yaml.SafeDumper):
    """Quotes the text that `_Loader` would read as a number."""


for _resolver in (_Loader, _Dumper):
    _resolver.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
        list("-+0123456789."),
    )


def _unique_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    repeated = sorted({str(key) for key in keys if keys.count(key) > 1})
    if repeated:
        raise yaml.constructor.ConstructorError(
            None, None, f"the key {repeated[0]} stands twice", node.start_mark
        )
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def load_config(path: Path, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """Read `path`, what it extends, and `key.path=value` overrides; check everything.

    Raises ConfigError that lists every problem found.
    """
    return check_tree(apply_overrides(read_tree(path), overrides), str(path))


def check_tree(tree: dict[str, Any], origin: str) -> ExperimentConfig:
    """Validate a plain tree; `origin` names it in messages."""
    try:
        config = ExperimentConfig.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        problems = [masked(_describe(e)) for e in error.errors()]
    else:
        problems = [*secret_problems(tree), *violations(config)]
        if not problems:
            return config
    raise ConfigError(
        f"{origin} has {len(problems)} problem{'s' * (len(problems) > 1)}:\n"
        + "\n".join(f"  - {p}" for p in problems),
        fix="`rlvr config schema` lists every key; docs/configuration.md explains them",
    )


def read_tree(path: Path, _above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The YAML tree of `path`, merged over the file its `extends` key names."""
    path = path.resolve()
    if path in _above:
        raise ConfigError(f"{path} extends itself through {' -> '.join(map(str, _above))}")
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {masked(str(error))}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} holds {type(tree).__name__}", "a mapping of sections")
    base = tree.pop("extends", None)
    if base is None:
        return tree
    return merge(read_tree(path.parent / str(base), (*_above, path)), tree)


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`. A section that names another `kind` replaces the whole section."""
    if "kind" in over and over["kind"] != base.get("kind"):
        return over
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def apply_overrides(tree: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Set `a.b.c=value` pairs; values are read as YAML."""
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not all(key.split(".")):
            raise ConfigError(f"cannot read the override {masked(override)!r}", "key.path=value")
        try:
            parsed = yaml.load(value, Loader=_Loader)
        except yaml.YAMLError as error:
            raise ConfigError(
                f"the value of {key} is not valid YAML: {masked(str(error))}"
            ) from None
        for part in reversed(key.split(".")):
            parsed = {part: parsed}
        tree = merge(tree, parsed)
    return tree


def dump_config(config: ExperimentConfig) -> str:
    """The resolved tree as YAML that `load_config` reads back to an equal configuration."""
    return yaml.dump(config.model_dump(mode="json"), Dumper=_Dumper, sort_keys=False)


def _describe(error: Any) -> str:
    loc = error["loc"]
    dotted = ".".join(str(part) for part in _without_tags(loc))
    if error["type"] == "extra_forbidden":
        names = _field_names(loc[:-1])
        near = difflib.get_close_matches(str(loc[-1]), names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(names)}"
        return f"{dotted}: unknown key; {hint}"
    if error["type"] == "missing":
        return f"{dotted}: required and not set"
    if dotted.endswith("_variable"):
        # Whoever puts a token where its variable's name belongs must not see it in a log.
        return f"{dotted}: wanted the name of an environment variable, in capitals; not its value"
    return f"{dotted}: {error['msg']}, got {error['input']!r}"


def _children(annotation: Any) -> list[Any]:
    """The section classes behind an annotation (through Optional, tuples, unions)."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, tuple, typing.Annotated):
        return [c for arg in typing.get_args(annotation) for c in _children(arg)]
    return []


def _walk(loc: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Follow an error's location; returns the section classes there and the path less tags."""
    classes: list[Any] = [ExperimentConfig]
    path: list[Any] = []
    for part in loc:
        tagged = [c for c in classes if _kind_of(c) == part]
        if tagged and (len(classes) > 1):
            classes = tagged
            continue
        path.append(part)
        if not isinstance(part, int):
            fields = [c.model_fields[part].annotation for c in classes if part in c.model_fields]
            classes = [child for annotation in fields for child in _children(annotation)]
    return classes, path


def _kind_of(section: Any) -> str | None:
    kind = section.model_fields.get("kind")
    return kind.default if kind else None


def _without_tags(loc: Sequence[Any]) -> list[Any]:
    return _walk(loc)[1]


def _field_names(loc: Sequence[Any]) -> list[str]:
    return sorted({name for section in _walk(loc)[0] for name in section.model_fields})
