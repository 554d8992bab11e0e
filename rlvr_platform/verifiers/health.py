"""Whether a step's verdicts can be trusted as a whole."""

from collections import Counter
from collections.abc import Sequence

from rlvr_platform.config.verifier import PoolConfig
from rlvr_platform.errors import VerifierError
from rlvr_platform.types import Outcome, Verdict


def require_verdicts(verdicts: Sequence[Verdict], pool: PoolConfig, where: str) -> None:
    """Raise VerifierError when too large a share of the rollouts has no verdict.

    A broken verifier looks like a policy that knows nothing; it must end the run instead.
    """
    failed = [v for v in verdicts if v.outcome in (Outcome.TIMEOUT, Outcome.ERROR)]
    if len(failed) <= pool.max_invalid_fraction * len(verdicts):
        return
    reasons = Counter(f"{verdict.outcome}: {verdict.rule}" for verdict in failed)
    listed = "; ".join(f"{reason} ({count}x)" for reason, count in reasons.most_common(3))
    raise VerifierError(
        f"{len(failed)} of {len(verdicts)} rollouts of {where} got no verdict: {listed}",
        f"at most {pool.max_invalid_fraction:.0%} (verifier.pool.max_invalid_fraction)",
        "try the verifier on recorded answers with `rlvr grade`",
    )
