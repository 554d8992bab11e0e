"""How the rollout budget of a step is spread over its prompts."""

from typing import Annotated, Literal

from pydantic import Field

from rlvr_platform.config.base import Section, setting
from rlvr_platform.config.solver import AnySolver, ClosedFormSolver

LengthScale = Literal["median"] | Annotated[float, Field(gt=0)]


class UniformAllocator(Section):
    """Every prompt gets rollout.rollouts_per_prompt rollouts."""

    kind: Literal["uniform"] = "uniform"


class RobustGp(Section):
    """Smoothed counts with observation noise; more rollouts and fresher ones weigh more."""

    kind: Literal["robust"] = "robust"
    prior_std: float = setting(
        2.0,
        "Standard deviation of a prompt's logit before anything is seen: at 2, nine in ten "
        "prompts lie between 4 % and 96 % success.",
        gt=0,
    )
    own_share: float = setting(
        0.1,
        "Share of that variance that belongs to the prompt alone, which no similar prompt tells "
        "anything about. 0: the embedding explains all.",
        ge=0,
        lt=1,
    )
    decay: float = setting(
        0.98,
        "Evidence keeps this share of its weight with every step that passes, because the "
        "policy moves: at 0.98 it halves in 34 steps. 1: nothing is forgotten.",
        gt=0,
        le=1,
    )
    window: int = setting(
        512,
        "Most recently observed prompts that a prediction is conditioned on, beside what is "
        "known of the predicted prompts themselves. Time grows with its cube.",
        ge=1,
    )


class PaperGp(Section):
    """VIP as published: noise-free conditioning, the mean carried forward to all prompts."""

    kind: Literal["paper"] = "paper"


class GpConfig(Section):
    """Gaussian process over prompt embeddings with an RBF kernel."""

    kind: Literal["gp"] = "gp"
    mode: Annotated[RobustGp | PaperGp, Field(discriminator="kind")] = setting(
        RobustGp(), "What is taken from the observations and what is carried forward."
    )
    length_scale: LengthScale = setting(
        "median",
        "Length scale of the kernel, in units of the embedding (rows have length 1). median: the "
        "median distance between two prompts. The paper's runs used 0.27 to 0.5.",
    )


class MovingAverageConfig(Section):
    """Each prompt's own past outcomes, drawn towards the mean of all prompts."""

    kind: Literal["moving_average"] = "moving_average"
    decay: float = setting(
        0.95,
        "Past rollouts keep this share of their weight with every step that passes. "
        "1: a plain average.",
        gt=0,
        le=1,
    )
    prior_rollouts: float = setting(
        1.0,
        "The mean of all prompts counts as this many rollouts of the prompt itself.",
        gt=0,
    )


class RidgeConfig(Section):
    """Linear ridge regression of the smoothed logit on the embedding."""

    kind: Literal["ridge"] = "ridge"
    penalty: float = setting(
        1.0, "Squared-norm penalty of the coefficients; the intercept is free.", gt=0
    )
    window: int = setting(1024, "Most recently observed prompts that are fitted.", ge=1)


class NoPredictor(Section):
    """Every prompt is taken to succeed half of the time; allocation is uniform."""

    kind: Literal["none"] = "none"


PredictorConfig = Annotated[
    GpConfig | MovingAverageConfig | RidgeConfig | NoPredictor, Field(discriminator="kind")
]


class PolicyEmbedding(Section):
    """Mean of the policy's own input embeddings over the prompt's tokens; nothing to download."""

    kind: Literal["policy"] = "policy"


class SentenceTransformerEmbedding(Section):
    """Mean-pooled encoder states, as of sentence-transformers/all-MiniLM-L6-v2 in the paper."""

    kind: Literal["sentence_transformer"] = "sentence_transformer"
    path: str = setting(doc="Folder with config, weights and tokenizer, or a hub name.")
    batch_size: int = setting(64, "Prompts encoded at once.", ge=1)
    max_tokens: int = setting(256, "Prompts are cut to this length for encoding. Tokens.", ge=1)


class NgramEmbedding(Section):
    """Hashed counts of character n-grams of the prompt's text; needs no model."""

    kind: Literal["ngrams"] = "ngrams"
    n: int = setting(3, "Characters of a gram.", ge=1)
    dimension: int = setting(384, "Buckets, the length of the embedding.", ge=2)
    seed: int = setting(0, "Seed of the hash.", ge=0)


EmbeddingConfig = Annotated[
    PolicyEmbedding | SentenceTransformerEmbedding | NgramEmbedding, Field(discriminator="kind")
]


class VipConfig(Section):
    """Predicts each prompt's success probability and spends rollouts where they tell most."""

    kind: Literal["vip"] = "vip"
    objective: Literal["dr_grpo", "rloo", "grpo_std", "mixed_prob"] = setting(
        "rloo",
        "dr_grpo, rloo, grpo_std: least gradient variance under that advantage. mixed_prob: most "
        "groups with both right and wrong answers.",
    )
    min_rollouts: int = setting(4, "Fewest rollouts of a prompt. Paper: 4.", ge=2)
    max_rollouts: int = setting(16, "Most rollouts of a prompt. Paper: 16.", ge=2)
    solver: AnySolver = ClosedFormSolver()
    predictor: PredictorConfig = GpConfig()
    embedding: EmbeddingConfig = PolicyEmbedding()


AllocatorConfig = Annotated[UniformAllocator | VipConfig, Field(discriminator="kind")]
