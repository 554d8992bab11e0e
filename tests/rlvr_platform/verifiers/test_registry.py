import subprocess
import sys
import time
import typing

import pytest

from rlvr_platform.config import verifiers_composite, verifiers_more
from rlvr_platform.config.base import Section
from rlvr_platform.config.verifiers_composite import CompositeVerifier, WeightedVerifier
from rlvr_platform.config.verifiers_more import (
    EndpointVerifier,
    FunctionVerifier,
    GymVerifier,
    RegexVerifier,
)
from rlvr_platform.verifiers.registry import CLASSES, build_verifier

NEEDED = {
    FunctionVerifier: {"path": "operator:countOf"},
    EndpointVerifier: {"url": "http://127.0.0.1:1/"},
    CompositeVerifier: {"parts": {"one": WeightedVerifier(use=RegexVerifier())}},
}
SINGLE = typing.get_args(typing.get_args(verifiers_composite.SingleVerifier)[0])


def sections(module):
    return {
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Section) and "kind" in value.model_fields
    }


def test_every_kind_has_a_class_and_may_be_a_part():
    ours = sections(verifiers_more)
    assert ours | {CompositeVerifier} <= set(CLASSES)
    assert ours <= set(SINGLE)


def test_kinds_are_distinct_and_every_setting_is_documented():
    kinds = [section.model_fields["kind"].default for section in {*SINGLE, *CLASSES}]
    assert len(kinds) == len(set(kinds))
    for section in CLASSES:
        for name, field in section.model_fields.items():
            assert name == "kind" or field.description, (section, name)


@pytest.mark.parametrize("section", [*SINGLE, CompositeVerifier])
def test_every_kind_builds_a_verifier(section):
    if section is FunctionVerifier:
        settings = {"path": "rlvr_platform.verifiers.registry:_none"}
        with pytest.raises(Exception, match="no function '_none'"):
            build_verifier(section(**settings))
        return
    if section is GymVerifier:
        pytest.importorskip("reasoning_gym")
    assert callable(build_verifier(section(**NEEDED.get(section, {}))).verify)


def test_a_verifier_loads_only_what_it_needs():
    program = (
        "import sys; from rlvr_platform.verifiers.registry import build_verifier;"
        "from rlvr_platform.config.verifiers_more import ChoiceVerifier;"
        "build_verifier(ChoiceVerifier());"
        "heavy = {'torch', 'sympy', 'math_verify', 'ray', 'jsonschema', 'reasoning_gym'};"
        "print(heavy & set(sys.modules))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert output.stdout.strip() == "set()", output.stderr


PIECES = [
    *("\\boxed{", "answer is ", "the ", "(", "* ", "** a", "<<", "[", "\n", " ", "a. ", "```\n"),
    *("P.S.", "******", "A is the answer ", "\\frac{", "1+", '{"a":', "- "),
]


@pytest.mark.parametrize("piece", PIECES)
def test_a_megabyte_of_anything_take_a_moment(piece):
    sizes = {"n": 3}
    names = ("n_bullets", "n_highlights", "n_placeholders", "n_paragraphs", "sentence_count")
    checks = [{"check": name, **sizes} for name in names]
    checks += [{"check": name} for name in ("title", "postscript", "think_format", "json")]
    checks += [{"check": "n_sections", "splitter": "Part", **sizes}]
    verifiers = [
        build_verifier(verifiers_more.ChoiceVerifier()),
        build_verifier(verifiers_more.CountdownVerifier(use="any_numbers")),
        build_verifier(verifiers_more.FormatVerifier(checks=tuple(checks))),
        build_verifier(verifiers_more.JsonSchemaVerifier(json_schema={})),
    ]
    prediction = piece * (1_000_000 // len(piece)) + "x"
    started = time.process_time()
    for verifier, gold in zip(verifiers, ("A", "1", "", ""), strict=True):
        verifier.verify(prediction, gold, {})
    assert time.process_time() - started < 3
