import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.telemetry.methods import histogram, method_facts
from rlvr_platform.telemetry.names import check, is_registered

PLAIN = {
    "step": 30,
    "version": 29,
    "reward/mean": 0.5,
    "rollouts/generated": 128.0,
    "rollouts/trained": 64.0,
    "rollouts/rescued": 0.0,
    "rollouts/down_sampled": 0.0,
    "rollouts/pooled": 0.0,
    "allocation/min": 8.0,
    "allocation/max": 8.0,
    "allocation/prompts@8": 16.0,
    "replay/size": 0.0,
    "replay/bytes": 0.0,
}
VIP = {
    "allocation/min": 4.0,
    "allocation/max": 12.0,
    "allocation/prompts@4": 8.0,
    "allocation/prompts@5": 1.0,
    "allocation/prompts@8": 2.0,
    "allocation/prompts@12": 4.0,
    "allocation/fallback": 0.0,
    "allocation/predicted_mean": 0.412,
    "allocation/observed_mean": 0.457,
    "allocation/brier": 0.1534,
    "allocation/brier_moving_average": 0.1812,
}
PODS = {"rollouts/trained": 64.0, "rollouts/down_sampled": 32.0}
AVSPO = {
    "avspo/threshold": 0.4967,
    "avspo/groups": 6.0,
    "avspo/virtual": 36.0,
    "avspo/share": 0.2461,
    "avspo/scale": 0.5,
    "rollouts/rescued": 48.0,
}
REPLAY = {
    "rollouts/replayed": 32.0,
    "replay/age_mean": 4.3125,
    "replay/age_max": 10.0,
    "replay/size": 1834.0,
}
EVERYTHING = PLAIN | VIP | PODS | AVSPO | REPLAY


def test_the_records_here_have_registered_names():
    check(EVERYTHING)


def test_methods_that_are_off_say_nothing():
    assert method_facts(PLAIN) == {}
    assert method_facts({"step": 0, "version": 0, "eval/a/avg@2": 0.5}) == {}


def test_an_allocation_shows_its_histogram_and_what_was_predicted():
    (text,) = method_facts(PLAIN | VIP).values()
    assert text == ("4 [█▁  ▂   ▄] 12 rollouts, p 0.41 predicted, 0.46 seen, Brier 0.153 (0.181)")
    assert list(method_facts(PLAIN | VIP)) == ["allocation"]


def test_a_uniform_allocation_of_a_predictor_is_one_bar():
    even = {name: value for name, value in VIP.items() if "prompts@" not in name}
    text = method_facts(PLAIN | even)["allocation"]
    assert text.startswith("8 [█] 8 rollouts")


def test_a_fallback_of_the_allocation_says_so():
    text = method_facts(PLAIN | VIP | {"allocation/fallback": 1.0})["allocation"]
    assert "uniform" in text and "events.jsonl" in text


def test_down_sampling_counts_kept_and_left_out():
    assert method_facts(PLAIN | PODS) == {"PODS": "kept 64 rollouts, left out 32"}


@pytest.mark.parametrize("fate", ["rescued", "pooled"])
def test_kept_rollouts_count_whatever_is_done_with_them_later(fate):
    record = PLAIN | PODS | {f"rollouts/{fate}": 8.0}
    assert method_facts(record)["PODS"] == "kept 72 rollouts, left out 32"


def test_a_rescue_says_how_much_and_under_which_threshold():
    text = method_facts(PLAIN | AVSPO)["AVSPO"]
    assert text == "rescued 48 rollouts of 6 groups, 25 % of sum |A|, threshold 0.50"
    idle = method_facts(PLAIN | AVSPO | {"avspo/groups": 0.0, "rollouts/rescued": 0.0})
    assert idle == {"AVSPO": "no rescue, threshold 0.50"}


def test_replay_says_how_many_how_old_and_what_is_stored():
    assert method_facts(PLAIN | REPLAY) == {
        "replay": "32 rollouts of age 4.3, at most 10; 1,834 stored"
    }
    early = PLAIN | {"rollouts/replayed": 0.0, "replay/size": 512.0}
    assert method_facts(early) == {"replay": "nothing drawn, 512 stored"}


def test_all_methods_are_told_side_by_side():
    assert list(method_facts(EVERYTHING)) == ["allocation", "PODS", "AVSPO", "replay"]


@given(st.sets(st.sampled_from(sorted(EVERYTHING))))
def test_a_partial_record_tells_less_and_never_fails(names):
    record = {name: EVERYTHING[name] for name in names}
    facts = method_facts(record)
    assert set(facts) <= set(method_facts(EVERYTHING))
    assert all(facts.values())


@given(st.dictionaries(st.integers(1, 99), st.integers(1, 999), min_size=1))
def test_the_histogram_is_what_the_names_say(counts):
    record = {f"allocation/prompts@{n}": float(k) for n, k in counts.items()}
    assert all(is_registered(name) for name in record)
    assert histogram(record) == counts and list(histogram(record)) == sorted(counts)
    text = method_facts(record | {n: v for n, v in VIP.items() if "prompts@" not in n})
    bars = text["allocation"].partition("[")[2].partition("]")[0]
    assert len(bars) == max(counts) - min(counts) + 1
    shown = {n: bar for n, bar in enumerate(bars, min(counts)) if bar != " "}
    assert set(shown) == set(counts)
    assert shown[max(counts, key=counts.get)] == "█"
