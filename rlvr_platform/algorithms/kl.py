"""KL(policy || reference) at each trained token: what is logged, and what is optimised.

Write d = log policy - log reference of the sampled token. Three estimators of the value, all
for tokens sampled from the policy (http://joschu.net/blog/kl-approx.html):

    k1 = d                    unbiased, may be negative
    k2 = d^2 / 2              biased, low variance
    k3 = exp(-d) - 1 + d      unbiased, never negative

Their derivatives are not estimators of the KL's gradient: E[grad k1] = E[grad log policy] = 0,
and E[grad k3] = -sum reference * grad log policy, the gradient of KL(reference || policy).
The gradient of KL = sum policy * d is sum policy * d * grad log policy (the term with
grad d = grad log policy sums to zero), so every estimator gets the gradient

    d * grad log policy       (d held constant; it equals the derivative of k2)

Tokens were sampled by the behaviour policy, so value and gradient are both multiplied by the
importance policy / behaviour, held constant. With truncated correction that factor is capped,
which trades a bias on the capped tokens for bounded variance.

This is the KL of the next-token distribution at the states that were visited; how a token
changes which states follow is not differentiated through.
"""

from typing import Literal

from torch import Tensor

Estimator = Literal["k1", "k2", "k3"]


def kl_value(logprobs: Tensor, reference: Tensor, estimator: Estimator) -> Tensor:
    """[N] estimates of KL(policy || reference) from tokens that the policy sampled, nats."""
    difference = logprobs - reference
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return difference.square() / 2
    return (-difference).expm1() + difference


def kl_penalty(
    logprobs: Tensor, reference: Tensor, importance: Tensor, estimator: Estimator
) -> Tensor:
    """[N] whose value is the estimator's and whose gradient is the KL's.

    `importance` [N] is policy / behaviour without gradient (`PolicyLosses.importance`).
    """
    fixed, importance = logprobs.detach(), importance.detach()
    value = importance * kl_value(fixed, reference, estimator)
    slope = importance * (fixed - reference)
    return value + slope * (logprobs - fixed)
