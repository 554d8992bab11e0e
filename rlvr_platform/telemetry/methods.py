"""What each method did in a step, in a few words for the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_BARS = "▁▂▃▄▅▆▇█"


def method_facts(record: Mapping[str, float]) -> dict[str, str]:
    """By method, what the record of a step says of it.

    A method that is off, or whose numbers are not all there, has no entry.
    """
    methods = {
        "allocation": _allocation,
        "PODS": _down_sampling,
        "AVSPO": _rescue,
        "replay": _replay,
    }
    facts = {name: _unless_partial(method, record) for name, method in methods.items()}
    return {name: text for name, text in facts.items() if text}


def _unless_partial(
    method: Callable[[Mapping[str, float]], str], record: Mapping[str, float]
) -> str:
    try:
        return method(record)
    except KeyError:
        return ""


def histogram(record: Mapping[str, float]) -> dict[int, int]:
    """How many prompts got how many rollouts, ascending."""
    prefix = "allocation/prompts@"
    counts = {
        int(name.removeprefix(prefix)): int(value)
        for name, value in record.items()
        if name.startswith(prefix)
    }
    return dict(sorted(counts.items()))


def _allocation(record: Mapping[str, float]) -> str:
    if record.get("allocation/fallback"):
        return "uniform, because predictor or solver failed (see events.jsonl)"
    counts = histogram(record)
    if "allocation/brier" not in record or not counts:
        return ""
    least, most = min(counts), max(counts)
    top = max(counts.values())
    bars = "".join(
        _BARS[(len(_BARS) - 1) * counts.get(n, 0) // top] if counts.get(n) else " "
        for n in range(least, most + 1)
    )
    return (
        f"{least} [{bars}] {most} rollouts, p {record['allocation/predicted_mean']:.2f} "
        f"predicted, {record['allocation/observed_mean']:.2f} seen, Brier "
        f"{record['allocation/brier']:.3f} ({record['allocation/brier_moving_average']:.3f})"
    )


def _down_sampling(record: Mapping[str, float]) -> str:
    left_out = record.get("rollouts/down_sampled", 0.0)
    if not left_out:
        return ""
    kept = sum(record[f"rollouts/{fate}"] for fate in ("trained", "rescued", "pooled"))
    return f"kept {kept:.0f} rollouts, left out {left_out:.0f}"


def _rescue(record: Mapping[str, float]) -> str:
    if "avspo/threshold" not in record:
        return ""
    threshold = f"threshold {record['avspo/threshold']:.2f}"
    if not record["avspo/groups"]:
        return f"no rescue, {threshold}"
    return (
        f"rescued {record['rollouts/rescued']:.0f} rollouts of {record['avspo/groups']:.0f} "
        f"groups, {record['avspo/share'] * 100:.0f} % of sum |A|, {threshold}"
    )


def _replay(record: Mapping[str, float]) -> str:
    if "rollouts/replayed" not in record:
        return ""
    stored = f"{record['replay/size']:,.0f} stored"
    if "replay/age_max" not in record:
        return f"nothing drawn, {stored}"
    ages = f"age {record['replay/age_mean']:.1f}, at most {record['replay/age_max']:.0f}"
    return f"{record['rollouts/replayed']:.0f} rollouts of {ages}; {stored}"
