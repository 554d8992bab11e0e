import json
from math import nan, sqrt
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from rlvr_platform.algorithms.advantages import AdvantageKind, advantages
from rlvr_platform.algorithms.avspo import (
    CollapsedGroups,
    Mode,
    Rescue,
    RescueRule,
    TriggerState,
    initial,
    observe,
    rescue,
    rescued_advantage,
    share_scale,
    smoothed_acr,
    triggered,
    virtual_count,
    virtual_rewards,
)
from rlvr_platform.config.avspo import Avspo, AvspoConfig, NoAvspo
from rlvr_platform.errors import InputError

KINDS, MODES = get_args(AdvantageKind), get_args(Mode)
sizes, rates = st.integers(2, 64), st.floats(0, 1)
UNCAPPED = Avspo(max_share=1.0)
"""The paper's settings, but for the smoothing, which a single step does not show."""


def collapsed_groups(size, reward, group_id=None) -> CollapsedGroups:
    ids = np.arange(len(size)) if group_id is None else np.array(group_id)
    return CollapsedGroups(
        np.array(size, np.int64), np.array(reward, float), np.array(size, float), ids
    )


def rescued(
    groups, config=UNCAPPED, acr=1.0, mixed=1000.0, kind="grpo", std_eps=0.0, r=(0.0, 1.0), step=1
) -> Rescue:
    rule = RescueRule(config, kind, std_eps, *r, seed=5)
    return rescue(groups, rule, initial(config), acr, mixed, step)


def test_the_kind_chooses_the_section_and_the_default_drops_collapsed_groups():
    read = TypeAdapter(AvspoConfig).validate_json
    assert read('{"kind": "none"}') == NoAvspo()
    assert read('{"kind": "avspo", "mode": "single"}') == Avspo(mode="single")
    with pytest.raises(ValidationError):
        read('{"kind": "none", "mode": "single"}')


# How many virtual rewards


@pytest.mark.parametrize(
    ("size", "acr", "alpha", "expected"),
    [
        (8, 0.5, 0.5, 6),  # 8 * 0.7071 = 5.66
        (8, 0.25, 0.5, 4),
        (25, 0.28, 1.0, 7),  # whole on paper, 7.000000000000001 in floating point
        (8, 0.0, 0.5, 1),
        (8, 1.0, 0.5, 8),
        (8, 0.5, 1.0, 4),
        (8, 0.5, 0.0, 8),
        (16, 0.5, 0.5, 12),
    ],
)
def test_count_by_hand(size, acr, alpha, expected):
    assert virtual_count(size, acr, alpha) == expected


@given(sizes, rates, rates, st.floats(0, 4), st.floats(0, 4))
def test_count_is_within_1_and_g_rises_with_acr_and_falls_with_alpha(size, a, b, low, high):
    assert 1 <= virtual_count(size, a, low) <= size
    assert virtual_count(size, min(a, b), low) <= virtual_count(size, max(a, b), low)
    assert virtual_count(size, a, max(low, high)) <= virtual_count(size, a, min(low, high))


# Which virtual rewards


@pytest.mark.parametrize(
    ("mode", "correct", "expected"),
    [
        # r_lo = -1, r_hi = 1, K = 4, delta = 0.1: a tenth of the range is 0.2
        ("stratified", False, [-0.8, -0.85, -0.9, -0.95]),
        ("stratified", True, [0.8, 0.85, 0.9, 0.95]),
        ("single", False, [1.0]),
        ("single", True, [-1.0]),
        ("manuscript", False, [-1.0, -1.0, -1.0, -1.0]),
        ("manuscript", True, [1.0, 0.5, 0.0, -0.5]),
    ],
)
def test_virtual_rewards_by_hand(mode, correct, expected):
    found = virtual_rewards(correct, 4, -1.0, 1.0, 0.1, mode, [0])
    assert found == pytest.approx(expected)


def test_random_partial_credit_is_uniform_over_the_range_and_a_function_of_its_seed():
    def draw(seed):
        return virtual_rewards(True, 20_000, 2.0, 4.0, 0.1, "random_partial_credit", seed)

    assert (draw([1, 2, 3]) == draw([1, 2, 3])).all()
    assert (draw([1, 2, 3]) != draw([1, 2, 4])).all()
    # Standard error of the mean 0.004.
    assert 2 <= draw([7]).min() < 2.01 < 3.99 < draw([7]).max() < 4
    assert draw([7]).mean() == pytest.approx(3.0, abs=0.03)


# The advantage they make


@given(
    sizes,
    st.lists(st.floats(0.01, 1), min_size=1, max_size=64),
    st.sampled_from(KINDS),
    st.floats(0, 1),
    st.floats(-5, 5),
)
def test_advantage_is_that_of_the_real_rewards_among_all_rewards(size, above, kind, eps, reward):
    virtual = reward + np.array(above)
    among_all = advantages(np.concatenate([np.full(size, reward), virtual]), kind, eps)[:size]
    found = rescued_advantage(reward, size, virtual, kind, eps, ddof=0)
    assert among_all == pytest.approx(np.full(size, found), abs=1e-9)


def test_stratified_advantage_by_hand():
    # Rewards 0, 0, 0.1, 0.05: mean 0.0375, population variance 0.00171875.
    virtual = np.array([0.1, 0.05])
    assert rescued_advantage(0.0, 2, virtual, "grpo", 0.0, 0) == pytest.approx(-3 / sqrt(11))
    assert rescued_advantage(0.0, 2, virtual, "dr_grpo", 0.0, 0) == pytest.approx(-0.0375)
    assert rescued_advantage(0.0, 2, virtual, "rloo", 0.0, 0) == pytest.approx(-0.05)
    assert rescued_advantage(0.0, 2, virtual, "grpo", 0.1, 0) == pytest.approx(
        -0.0375 / (sqrt(0.00171875) + 0.1)
    )


@given(sizes, st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (2.0, 7.0)]))
def test_single_mode_gives_one_over_root_of_g_plus_1(size, r):
    result = rescued(collapsed_groups([size] * 2, r), Avspo(mode="single", max_share=1.0), r=r)
    assert result.advantage == pytest.approx([-1 / sqrt(size + 1), 1 / sqrt(size + 1)])
    assert result.virtual.tolist() == [1, 1]


def test_rewards_that_leave_the_group_collapsed_give_no_advantage():
    for kind in KINDS:
        assert rescued_advantage(1.0, 4, np.ones(3), kind, 0.0, 0) == 0.0
        assert rescued_advantage(0.0, 4, np.full(4, 1.9e-6), kind, 0.0, 0) == 0.0


@given(sizes, rates, st.sampled_from(KINDS), st.sampled_from(MODES))
def test_wrong_groups_are_pushed_down_and_correct_groups_up(size, acr, kind, mode):
    config = Avspo(mode=mode, tau=0.0, max_share=1.0)
    wrong, correct = rescued(collapsed_groups([size] * 2, [0, 1]), config, acr, kind=kind).advantage
    assert wrong <= 0 <= correct
    if acr > 0 and mode != "manuscript":
        assert wrong < 0 < correct


@given(sizes, rates)
def test_wrong_and_correct_groups_mirror_each_other(size, acr):
    wrong, correct = rescued(collapsed_groups([size] * 2, [0, 1]), acr=acr).advantage
    assert wrong == pytest.approx(-correct)


@given(sizes, st.floats(0.51, 1), st.floats(0.01, 1))
def test_delta_cancels_under_grpo_and_scales_the_other_kinds(size, acr, delta):
    groups = collapsed_groups([size] * 2, [0, 1])

    def found(delta, kind):
        return rescued(groups, Avspo(delta=delta, max_share=1.0), acr, kind=kind).advantage

    assert found(delta, "grpo") == pytest.approx(found(0.1, "grpo"), rel=1e-6)
    for kind in ("dr_grpo", "rloo"):
        assert found(delta, kind) == pytest.approx(10 * delta * found(0.1, kind))


@given(sizes, st.floats(0.51, 1), st.sampled_from(["stratified", "random_partial_credit"]))
def test_advantage_stays_within_the_root_of_k_over_g(size, acr, mode):
    """The paper's bound, which equal virtual rewards reach."""
    result = rescued(collapsed_groups([size] * 2, [0, 1]), Avspo(mode=mode, max_share=1.0), acr)
    bound = np.sqrt(virtual_count(size, acr, 0.5) / size)
    assert (np.abs(result.advantage) <= bound + 1e-12).all()


@given(st.integers(2, 32))
def test_more_collapse_pushes_harder(size):
    found = [
        rescued(collapsed_groups([size], [1]), Avspo(tau=0.0, max_share=1.0), acr).advantage[0]
        for acr in np.linspace(0.01, 1, 30)
    ]
    assert (np.diff(found) >= -1e-12).all()
    assert found[-1] > found[0]


@given(sizes, st.floats(0.51, 1), st.floats(-3, 3), st.floats(0.1, 9))
def test_under_grpo_the_reward_range_does_not_matter(size, acr, r_lo, width):
    moved = collapsed_groups([size] * 2, [r_lo, r_lo + width])
    plain = collapsed_groups([size] * 2, [0, 1])
    found = rescued(moved, acr=acr, r=(r_lo, r_lo + width)).advantage
    assert found == pytest.approx(rescued(plain, acr=acr).advantage, rel=1e-6)


@given(sizes, rates, st.sampled_from(KINDS))
def test_manuscript_mode_never_rescues_a_wrong_group(size, acr, kind):
    config = Avspo(mode="manuscript", tau=0.0, max_share=1.0)
    result = rescued(collapsed_groups([size], [0]), config, acr, kind=kind)
    assert not result.rescued.any() and not result.advantage.any()


def test_manuscript_mode_rescues_a_correct_group_only_with_two_virtual_rewards():
    config = Avspo(mode="manuscript", tau=0.0, alpha=1.0, max_share=1.0)
    groups = collapsed_groups([4], [1])
    assert not rescued(groups, config, acr=0.25).rescued.any()
    # K = 2: rewards 1, 1, 1, 1, 1, 0.5; mean 11/12, variance 5/144.
    assert rescued(groups, config, acr=0.5).advantage == pytest.approx([1 / sqrt(5)])


# Which groups


def test_only_groups_at_an_end_of_the_reward_range_are_rescued():
    groups = collapsed_groups([8, 8, 8, 8, 1, 2], [0, 0.5, 1, 0.999, 1, 1])
    expected = [True, False, True, False, False, True]
    for mode in ("stratified", "single", "random_partial_credit"):
        result = rescued(groups, Avspo(mode=mode, max_share=1.0))
        assert result.rescued.tolist() == expected
        assert (result.advantage != 0).tolist() == expected


def test_a_common_reward_with_rounding_error_is_still_all_correct():
    assert rescued(collapsed_groups([7], [np.full(7, 0.3).mean()]), r=(0.1, 0.3)).rescued.all()


@pytest.mark.parametrize(
    ("side", "expected"),
    [("both", [True, True]), ("all_wrong", [True, False]), ("all_correct", [False, True])],
)
def test_one_side_alone_can_be_rescued(side, expected):
    result = rescued(collapsed_groups([8, 8], [0, 1]), Avspo(rescue=side, max_share=1.0))
    assert result.rescued.tolist() == expected


@given(st.lists(st.tuples(st.integers(1, 16), st.sampled_from([0.0, 0.5, 1.0]))), st.randoms())
def test_a_groups_advantage_does_not_depend_on_its_neighbours_or_their_order(groups, random):
    order = random.sample(range(len(groups)), len(groups))
    size, reward = np.array(groups, float).reshape(-1, 2).T
    for mode in MODES:
        config = Avspo(mode=mode, max_share=1.0)
        everyone = CollapsedGroups(size.astype(int), reward, size, np.arange(len(groups)))
        shuffled = CollapsedGroups(
            size[order].astype(int), reward[order], size[order], np.array(order, int)
        )
        result = rescued(everyone, config).advantage
        assert rescued(shuffled, config).advantage.tolist() == result[order].tolist()
        for i in range(len(groups)):
            alone = collapsed_groups(everyone.size[i : i + 1], reward[i : i + 1], [i])
            assert rescued(alone, config).advantage[0] == result[i]


def test_random_partial_credit_differs_between_groups_and_between_steps():
    groups, config = collapsed_groups([8, 8], [1, 1]), Avspo(mode="random_partial_credit")
    first, second = rescued(groups, config), rescued(groups, config, step=2)
    found = [*first.advantage, *second.advantage]
    assert len(set(found)) == 4


def test_a_step_without_collapsed_groups_has_an_empty_rescue():
    result = rescued(collapsed_groups([], []))
    assert (len(result.advantage), result.scale, result.share) == (0, 1.0, 0.0)


# Caps


def test_a_row_is_capped():
    groups = collapsed_groups([8, 8], [0, 10])
    found = rescued(groups, Avspo(max_share=1.0), kind="rloo", r=(0.0, 10.0))
    assert found.advantage.tolist() == pytest.approx([-0.3, 0.3])
    config = Avspo(max_share=1.0, max_abs_advantage=0.25)
    found = rescued(groups, config, kind="rloo", r=(0.0, 10.0))
    assert found.advantage.tolist() == [-0.25, 0.25]


@given(
    st.lists(st.tuples(st.integers(2, 16), st.sampled_from([0.0, 1.0])), min_size=1),
    st.floats(1e-3, 1e3),
    st.floats(0.01, 0.99),
)
def test_rescued_rows_never_exceed_their_share_and_are_not_shrunk_below_it(groups, mixed, limit):
    size, reward = np.array(groups).T
    some = collapsed_groups(size.astype(int), reward)
    free, held = rescued(some, mixed=mixed), rescued(some, Avspo(max_share=limit), mixed=mixed)
    total = some.size @ np.abs(held.advantage)
    assert held.share == pytest.approx(total / (total + mixed))
    assert held.share == pytest.approx(min(free.share, limit))
    assert held.advantage == pytest.approx(held.scale * free.advantage)
    assert held.scale <= 1.0


def test_share_by_hand():
    # 8 rows of 1/3 among rows that sum to 4: c * 8/3 = 4/3 is a quarter of 4/3 + 4.
    config = Avspo(mode="single")
    result = rescued(collapsed_groups([8], [1]), config, mixed=4.0)
    assert result.scale == pytest.approx(0.5)
    assert result.advantage == pytest.approx([1 / 6])
    assert result.share == pytest.approx(0.25)


def test_a_step_of_collapsed_groups_alone_rescues_nothing_unless_the_share_is_free():
    groups = collapsed_groups([8, 8], [0, 1])
    result = rescued(groups, Avspo(), mixed=0.0)
    assert result.advantage.tolist() == [0.0, 0.0] and not result.rescued.any()
    assert (result.scale, result.share) == (0.0, 0.0)
    free = rescued(groups, UNCAPPED, mixed=0.0)
    assert free.rescued.all() and free.share == 1.0


def test_the_share_goes_to_nothing_with_the_mixed_rows_rather_than_jump_there():
    assert [share_scale(1.0, mixed, 0.25) for mixed in (3.0, 0.3, 0.03, 0.0)] == pytest.approx(
        [1.0, 0.1, 0.01, 0.0]
    )


@pytest.mark.parametrize("mixed", [nan, -1.0])
def test_an_impossible_sum_of_advantages_is_refused(mixed):
    with pytest.raises(ValueError, match="sum of"):
        rescued(collapsed_groups([8], [1]), mixed=mixed)


# Trigger


@pytest.mark.parametrize(("acr", "expected"), [(0.5, False), (0.501, True), (0.0, False)])
def test_groups_are_rescued_only_while_acr_is_above_the_threshold(acr, expected):
    assert triggered(initial(UNCAPPED), acr, UNCAPPED) is expected
    assert rescued(collapsed_groups([8], [1]), acr=acr).rescued.tolist() == [expected]


def test_the_first_threshold_is_the_configured_one():
    assert initial(Avspo(tau=0.3)) == TriggerState(0.3, None, None)


def test_threshold_adapts_as_by_hand():
    config = Avspo(ema=0.0, eta=0.1)
    state = observe(initial(config), 0.9, 0.4, config)
    assert state == TriggerState(0.5, 0.9, 0.4)
    state = observe(state, 0.9, 0.5, config)  # better: 0.5 + 0.1 * (0.9 - 0.5)
    assert state.tau == pytest.approx(0.54)
    state = observe(state, 0.8, 0.3, config)  # worse: 0.54 - 0.1 * (0.8 - 0.54)
    assert state.tau == pytest.approx(0.514)
    state = observe(state, 0.1, 0.3, config)  # the same
    assert state.tau == pytest.approx(0.514)


def test_stagnation_under_high_collapse_lowers_the_threshold_to_its_limit_and_not_below():
    config = Avspo(ema=0.0, eta=0.1)
    state, reward = observe(initial(config), 0.9, 1.0, config), 1.0
    taus = []
    for _ in range(60):
        reward -= 0.01
        state = observe(state, 0.9, reward, config)
        taus.append(state.tau)
    assert (np.diff(taus) <= 0).all() and taus[-1] == config.tau_min


def test_the_threshold_does_not_rise_above_its_limit():
    config = Avspo(ema=0.0, eta=1.0, tau_max=0.7)
    state = observe(initial(config), 1.0, 0.1, config)
    assert observe(state, 1.0, 0.2, config).tau == 0.7


def test_without_eta_the_threshold_is_fixed():
    config = Avspo(eta=0.0)
    state = initial(config)
    for acr, reward in [(0.9, 0.1), (0.1, 0.5), (1.0, 0.2)]:
        state = observe(state, acr, reward, config)
        assert state.tau == 0.5


def test_acr_is_averaged_with_this_step_in_it_and_the_average_moves_the_threshold():
    config = Avspo(ema=0.8)
    state = initial(config)
    assert smoothed_acr(state, 0.6, config) == 0.6
    state = observe(state, 0.6, 0.5, config)
    assert smoothed_acr(state, 1.0, config) == pytest.approx(0.8 * 0.6 + 0.2 * 1.0)
    after = observe(state, 1.0, 0.7, config)
    assert after.acr == pytest.approx(0.68)
    assert after.tau == pytest.approx(0.5 + 0.01 * (0.68 - 0.5))


def test_the_average_decides_trigger_and_count():
    groups, calm = collapsed_groups([8], [1]), TriggerState(0.5, 0.2, 0.5)
    for ema, count in [(0.0, 8), (0.4, 7), (0.8, 0)]:  # averages 1, 0.68 and 0.36
        config = Avspo(ema=ema, max_share=1.0)
        rule = RescueRule(config, "grpo", 0.0, 0.0, 1.0, seed=0)
        assert rescue(groups, rule, calm, 1.0, 10.0, step=3).virtual.tolist() == [count]
        assert triggered(calm, 1.0, config) is (count > 0)


def test_the_default_average_of_few_groups_is_three_times_calmer():
    rng, config = np.random.default_rng(0), Avspo()
    state, smooth, raw = initial(config), [], rng.binomial(16, 0.5, 5000) / 16
    for acr in raw:
        state = observe(state, float(acr), 0.5, config)
        smooth.append(state.acr)
    assert raw.std() / np.std(smooth[50:]) == pytest.approx(3.0, rel=0.1)


def test_a_step_without_a_reward_changes_nothing():
    state = TriggerState(0.4, 0.6, 0.3)
    assert observe(state, nan, nan, UNCAPPED) == state
    assert not triggered(state, nan, UNCAPPED)
    assert not rescued(collapsed_groups([], []), acr=nan).rescued.any()


@pytest.mark.parametrize(("acr", "reward"), [(1.1, 0.5), (-0.1, 0.5), (0.5, nan), (nan, 0.5)])
def test_impossible_measurements_are_refused(acr, reward):
    with pytest.raises(ValueError, match="collapse rate"):
        observe(TriggerState(0.4, 0.6, 0.3), acr, reward, UNCAPPED)


@pytest.mark.parametrize("state", [TriggerState(0.5, None, None), TriggerState(0.4, 0.6, 0.3)])
def test_state_survives_a_checkpoint(state):
    stored = json.dumps(state.to_dict(), allow_nan=False)
    assert TriggerState.from_dict(json.loads(stored)) == state


@pytest.mark.parametrize("values", [{}, {"tau": nan}, {"tau": 0.5, "speed": 1.0}])
def test_a_state_of_another_kind_is_bad_input(values):
    with pytest.raises(InputError, match="AVSPO"):
        TriggerState.from_dict(values)
