import typing

import pytest

from rlvr_platform.cli.verifier_choice import KINDS, read_choices
from rlvr_platform.config.base import Section, setting
from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.config.verifiers_math import NumericVerifier
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.errors import ConfigError

VERIFIER, OPTION = False, True


def test_every_verifier_of_the_configuration_can_be_named():
    assert {"math", "numeric", "exact"} <= set(KINDS)
    definitions = VerifierConfig.model_json_schema()["$defs"]
    named = {
        d["properties"]["kind"]["const"] for d in definitions.values() if "kind" in d["properties"]
    }
    assert named == set(KINDS)


def test_options_are_typed_by_the_section_and_read_as_yaml():
    (chosen,) = read_choices([(VERIFIER, "numeric"), (OPTION, "relative_tolerance=1e-3")])
    assert chosen.use == NumericVerifier(relative_tolerance=1e-3)
    assert chosen.name == "numeric relative_tolerance=1e-3"


def test_an_option_before_every_verifier_belongs_to_the_first():
    given = [(OPTION, "ignore_case=true"), (VERIFIER, "exact"), (VERIFIER, "exact")]
    assert [c.use for c in read_choices(given)] == [
        ExactVerifier(ignore_case=True),
        ExactVerifier(),
    ]


def test_a_missing_setting_is_named(monkeypatch):
    class Needy(Section):
        kind: typing.Literal["needy"] = "needy"
        pattern: str = setting(doc="Needed.")

    monkeypatch.setitem(KINDS, "needy", Needy)
    with pytest.raises(ConfigError, match="it needs pattern"):
        read_choices([(VERIFIER, "needy")])
    (chosen,) = read_choices([(VERIFIER, "needy"), (OPTION, "pattern=a=b")])
    assert chosen.use.pattern == "a=b"


@pytest.mark.parametrize("option", ["kind=math", "nested.key=1", "ignore_case=[1", "=1"])
def test_other_options_are_refused(option):
    with pytest.raises(ConfigError):
        read_choices([(VERIFIER, "exact"), (OPTION, option)])
