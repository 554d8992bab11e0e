"""Where prompts come from and how they are rendered."""

from typing import Annotated, Any, Literal

from pydantic import Field

from rlvr_platform.config.base import Section, setting


class Columns(Section):
    """Which column of a record means what."""

    prompt: str = setting("prompt", "Column with the task's text.")
    gold: str = setting("answer", "Column with the reference answer.")
    options: tuple[str, ...] = setting((), "Columns handed to the verifier as options.")
    gold_pattern: str | None = setting(
        None,
        "Regular expression whose first group is the gold answer, for columns that hold a "
        "whole solution (GSM8K: '####\\s*(.+)$').",
    )


class ArithmeticSource(Section):
    """Generated arithmetic with difficulty levels; endless, seeded, no download."""

    kind: Literal["arithmetic"] = "arithmetic"
    families: tuple[str, ...] = setting(
        ("add", "sub", "mul", "chain"),
        "Task families to mix; each has several difficulty levels.",
        min_length=1,
    )
    count: int = setting(4096, "Distinct prompts.", ge=1)
    split: Literal["train", "test"] = setting(
        "train", "Disjoint halves of the task space: no train prompt appears in test."
    )
    seed: int = setting(0, "Seed of the prompts.", ge=0)


class JsonlSource(Section):
    kind: Literal["jsonl"] = "jsonl"
    path: str = setting(doc="File with one JSON object a line.")
    columns: Columns = Columns()


class ParquetSource(Section):
    kind: Literal["parquet"] = "parquet"
    path: str = setting(doc="Parquet file.")
    columns: Columns = Columns()


class HuggingFaceSource(Section):
    kind: Literal["huggingface"] = "huggingface"
    name: str = setting(doc="Dataset name on the hub, or a local dataset folder.")
    subset: str | None = setting(None, "Configuration name of the dataset.")
    split: str = setting("train", "Split to read.")
    columns: Columns = Columns()


class ReasoningGymSource(Section):
    """Procedural tasks of the package `reasoning-gym` (extra `reasoning-gym`)."""

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    dataset: str = setting(doc="Name of the task generator.")
    count: int = setting(4096, "Distinct prompts.", ge=1)
    seed: int = setting(0, "Seed of the generator.", ge=0)
    options: dict[str, Any] = setting({}, "Arguments of the generator.")


SingleSource = Annotated[
    ArithmeticSource | JsonlSource | ParquetSource | HuggingFaceSource | ReasoningGymSource,
    Field(discriminator="kind"),
]


class MixtureSource(Section):
    """Several sources as one, each under a name that allocation constraints can refer to."""

    kind: Literal["mixture"] = "mixture"
    parts: dict[str, SingleSource] = setting(
        doc="Sources by name. Every prompt of each counts once in an epoch.", min_length=1
    )


Source = Annotated[
    ArithmeticSource
    | JsonlSource
    | ParquetSource
    | HuggingFaceSource
    | ReasoningGymSource
    | MixtureSource,
    Field(discriminator="kind"),
]


class PromptFormat(Section):
    """How a task's text becomes the policy's input."""

    template: Literal["plain", "chat"] = setting(
        "plain", "plain: the text as it is. chat: through the tokenizer's chat template."
    )
    system: str = setting("", "System message; chat only.")
    instruction: str = setting(
        "", "Added to every task on a line of its own, e.g. the answer format."
    )


class DataConfig(Section):
    train: Source = setting(doc="Prompts to learn from.")
    format: PromptFormat = PromptFormat()
    max_prompt_tokens: int = setting(
        512, "Longer prompts are left out at load, with a count. Tokens.", ge=1
    )
    bad_gold: Literal["stop", "drop"] = setting(
        "stop", "What to do when a gold answer does not verify against itself."
    )
    shuffle: bool = setting(True, "A new seeded order every epoch; off: file order.")
