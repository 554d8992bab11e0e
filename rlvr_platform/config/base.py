"""The strict, frozen base of every configuration section."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """Unknown keys are errors, values never change, types are not guessed, numbers are finite."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )


def setting(default: Any = ..., doc: str = "", **limits: Any) -> Any:
    """A field with its documentation: meaning, unit, and why the default is what it is."""
    return Field(default, description=doc, **limits)
