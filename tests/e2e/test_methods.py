"""Every method alone through real actors, by its effect on the run's record."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.methods import histogram
from rlvr_platform.telemetry.rollouts import read_rollouts
from tests.e2e.conftest import Run, train

ENDS = ("trained", "rescued", "down_sampled", "dropped", "pooled", "invalid")


def rollouts(run: Run, step: int) -> list[dict[str, Any]]:
    return read_rollouts(RunFolder(run.folder).rollouts(step)).to_pylist()


def fates(run: Run, step: int) -> Counter[str]:
    return Counter(row["fate"] for row in rollouts(run, step))


def steps_of(run: Run) -> list[dict[str, float]]:
    """The record of every step, once the run and its accounts are seen to be in order."""
    assert run.code == 0, run.output
    for record in run.metrics[1:]:
        step, found = int(record["step"]), fates(run, int(record["step"]))
        ends = {end: record[f"rollouts/{end}"] for end in ENDS}
        assert sum(ends.values()) == record["rollouts/generated"]
        assert found["TRAINED"] == ends["trained"] and found["RESCUED"] == ends["rescued"], step
        assert found["DOWN_SAMPLED"] == ends["down_sampled"]
        assert found["REPLAYED"] == record.get("rollouts/replayed", 0)
        assert record.get("sync/probe_max_abs_diff", 0) < 1e-3
    return run.metrics[1:]


def test_pods_trains_on_m_of_n(tmp_path: Path) -> None:
    run = train(tmp_path / "run", ["steps=2"], config="configs/dev/pods.yaml")
    for record in steps_of(run):
        groups = Counter(
            (row["group_id"], row["fate"]) for row in rollouts(run, int(record["step"]))
        )
        sizes = {count for (_, fate), count in groups.items() if fate == "TRAINED"}
        assert sizes == {8}
        assert record["rollouts/generated"] == 8 * 16
        assert record["rollouts/trained"] == record["rollouts/down_sampled"] > 0


def test_vip_moves_the_budget_and_keeps_it(tmp_path: Path) -> None:
    run = train(tmp_path / "run", ["steps=5"], config="configs/dev/vip.yaml")
    first, *later = steps_of(run)
    assert first["allocation/min"] == first["allocation/max"] == 8, "nothing is known yet"
    assert all(record["rollouts/generated"] == 8 * 8 for record in later)
    assert any(record["allocation/max"] > record["allocation/min"] for record in later)
    assert all(4 <= min(histogram(r)) <= max(histogram(r)) <= 16 for r in later)
    assert all(0 < record["allocation/brier"] < 0.5 for record in later)
    assert not any(record["allocation/fallback"] for record in later)


def test_avspo_rescues_groups_only_when_triggered(tmp_path: Path) -> None:
    """The step's ACR lies now above and now below the threshold."""
    tau = 0.25
    overrides = ["steps=6", f"avspo.tau={tau}", "avspo.eta=0.0", "avspo.ema=0.0"]
    run = train(tmp_path / "run", overrides, config="configs/dev/avspo.yaml")
    records = steps_of(run)
    for record in records:
        assert (record["avspo/groups"] > 0) == (record["acr/group"] > tau)
        assert record["avspo/share"] <= 0.25 + 1e-9
        rescued = [r for r in rollouts(run, int(record["step"])) if r["fate"] == "RESCUED"]
        assert all((row["advantage"] > 0) == (row["reward"] == 1.0) for row in rescued)
    assert len({record["avspo/groups"] > 0 for record in records}) == 2


def test_replay_draws_old_rollouts_within_the_age_limit(tmp_path: Path) -> None:
    overrides = ["steps=5", "replay.reuse.start_step=2", "replay.reuse.max_age=2"]
    run = train(tmp_path / "run", overrides, config="configs/dev/replay.yaml")
    first, *later = steps_of(run)
    assert first["rollouts/replayed"] == 0
    for record in later:
        assert record["rollouts/replayed"] == round(0.5 * record["rollouts/trained"])
        assert 1 <= record["replay/age_mean"] <= record["replay/age_max"] <= 2
        replayed = [r for r in rollouts(run, int(record["step"])) if r["fate"] == "REPLAYED"]
        assert all(row["step"] < record["step"] for row in replayed)
    assert later[-1]["policy/kl_behaviour"] > first["policy/kl_behaviour"]


def test_dynamic_sampling_makes_up_for_collapsed_groups(tmp_path: Path) -> None:
    run = train(tmp_path / "run", ["steps=3"], config="configs/dev/dapo.yaml")
    records = steps_of(run)
    for record in records:
        mixed = {
            r["group_id"] for r in rollouts(run, int(record["step"])) if r["fate"] == "TRAINED"
        }
        assert len(mixed) <= 8
        assert (record["rollouts/generated"] > 64) == (record["acr/group"] > 0)
    assert max(record["rollouts/generated"] for record in records) > 64
