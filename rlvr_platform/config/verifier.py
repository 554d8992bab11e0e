"""How completions are judged."""

from typing import Annotated

from pydantic import Field

from rlvr_platform.config.base import Section, setting
from rlvr_platform.config.verifiers_composite import CompositeVerifier, Single

AnyVerifier = Annotated[Single | CompositeVerifier, Field(discriminator="kind")]


class PoolConfig(Section):
    """The pool of killable verifier processes."""

    workers: int = setting(
        2,
        "Processes that judge; as many more stand by to replace them, or to judge items that are "
        "far slower than most.",
        ge=1,
    )
    deadline_s: float = setting(
        5.0, "A verdict that takes longer is a timeout and its process is replaced. Seconds.", gt=0
    )
    memory_mib: int = setting(2048, "Address-space limit of one process. MiB.", ge=256)
    recycle_after: int = setting(
        20_000, "A process is replaced after this many verdicts, against slow leaks.", ge=1
    )
    recycle_growth_mib: int = setting(
        256,
        "A process is replaced once its own memory has grown by this much, caches included. MiB.",
        ge=1,
    )
    queue_mib: int = setting(
        256, "Handing in more waits while this much text is on its way to a verdict. MiB.", ge=1
    )
    max_invalid_fraction: float = setting(
        0.2,
        "The run stops when more than this share of a step's verdicts are timeouts or errors.",
        ge=0,
        le=1,
    )


class VerifierConfig(Section):
    use: AnyVerifier = setting(doc="The verifier.")
    pool: PoolConfig = PoolConfig()
    reward_correct: float = setting(1.0, "Reward of a correct answer.")
    reward_wrong: float = setting(0.0, "Reward of a wrong answer, and of no answer.")
