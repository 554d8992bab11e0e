"""Options of the math and the numeric verifier: what counts as the same answer."""

from typing import Literal

from rlvr_platform.config.base import Section, setting


class MathVerifier(Section):
    """Mathematical equivalence of the final answer and the gold answer.

    The options are conventions of a data set. A prompt may carry its own values for them among
    its verifier options.
    """

    kind: Literal["math"] = "math"
    units: Literal["ignore", "agree", "require"] = setting(
        "agree",
        "Units of measurement and currencies. agree: may be left out on either side, two that "
        "contradict each other are wrong; ignore: never compared; require: the answer has the "
        "gold answer's unit.",
    )
    percent: Literal["lenient", "strict"] = setting(
        "lenient",
        "28% and 0.28 are always equal. lenient: 28% and a bare 28 are equal too, as data sets "
        "leave the sign out; strict: they are not.",
    )
    rounding_decimals: int = setting(
        2,
        "A gold answer that is a decimal number with at least this many decimal places is taken "
        "as rounded: it accepts every exact or longer answer that rounds to it. Fewer places, as "
        "in 2.5, are exact. A large number, e.g. 99, makes every decimal exact.",
        ge=0,
    )
    unevaluated: Literal["reject", "accept"] = setting(
        "reject",
        "An answer that leaves a sum, product, integral, limit, determinant, maximum or gcd to "
        "do, where the gold answer has none: it may restate the task.",
    )


class NumericVerifier(Section):
    """The final number of the completion against the gold number."""

    kind: Literal["numeric"] = "numeric"
    relative_tolerance: float = setting(1e-6, "Relative to the gold number.", ge=0)
    absolute_tolerance: float = setting(1e-9, "Absolute tolerance.", ge=0)
    units: Literal["ignore", "agree"] = setting(
        "agree",
        "A unit behind the number. agree: may be left out on either side, two that contradict "
        "each other are wrong; ignore: never compared.",
    )
    percent: Literal["ignore", "scale"] = setting(
        "ignore",
        "A percent sign. ignore: 25% is 25; scale: 25% is 0.25, in gold and answer alike.",
    )
