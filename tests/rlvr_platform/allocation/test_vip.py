import numpy as np
import pytest

from rlvr_platform.allocation.belief import certain
from rlvr_platform.allocation.objectives import OBJECTIVES
from rlvr_platform.allocation.solver import closed_form
from rlvr_platform.allocation.vip import VipAllocator
from rlvr_platform.config.allocator import (
    GpConfig,
    MovingAverageConfig,
    NoPredictor,
    PaperGp,
    RidgeConfig,
    VipConfig,
)
from rlvr_platform.config.solver import CvxpySolver, GreedySolver, SourceShare, TokenBudget
from rlvr_platform.errors import ConfigError, InputError, NumericalError

Q, D, B, BUDGET = 48, 6, 12, 96
ROWS = np.random.default_rng(0).standard_normal((Q, D))
X = (ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)).astype(np.float32)
SOURCES = ("maths",) * (Q // 2) + ("logic",) * (Q // 2)
BATCH = np.arange(0, Q, 4)
LEVEL = 1 / (1 + np.exp(-3 * X[:, 0].astype(float)))

PREDICTORS = {
    "robust": GpConfig(),
    "paper": GpConfig(mode=PaperGp()),
    "moving_average": MovingAverageConfig(),
    "ridge": RidgeConfig(),
    "none": NoPredictor(),
}


def allocator(embeddings: np.ndarray = X, **settings: object) -> VipAllocator:
    return VipAllocator(VipConfig(**settings), embeddings, SOURCES)


def taught(**settings: object) -> VipAllocator:
    vip = allocator(**settings)
    teach(vip, range(3))
    return vip


def teach(vip: VipAllocator, steps: range) -> None:
    for step in steps:
        draw = np.random.default_rng(step)
        prompts = draw.permutation(Q)[:B]
        counts = draw.integers(4, 17, B)
        vip.observe(prompts, draw.binomial(counts, LEVEL[prompts]).astype(float), counts)


@pytest.mark.parametrize("predictor", PREDICTORS.values(), ids=PREDICTORS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_first_step_is_uniform(predictor, objective):
    allocation = allocator(predictor=predictor, objective=objective).allocate(BATCH, BUDGET)
    assert allocation.counts.tolist() == [BUDGET // B] * B
    np.testing.assert_allclose(allocation.predicted, 0.5)
    np.testing.assert_allclose(allocation.baseline, 0.5)
    assert allocation.fallback == ""


@pytest.mark.parametrize("predictor", PREDICTORS.values(), ids=PREDICTORS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_counts_spend_the_budget_within_the_bounds(predictor, objective):
    allocation = taught(predictor=predictor, objective=objective).allocate(BATCH, BUDGET)
    assert allocation.counts.dtype == np.int64
    assert allocation.counts.sum() == BUDGET
    assert allocation.counts.min() >= 4
    assert allocation.counts.max() <= 16
    assert allocation.fallback == ""


def test_uncertain_prompts_get_more():
    vip = allocator()
    counts = np.full(B, 16)
    successes = np.where(np.arange(B) < 6, 0.0, 8.0)
    vip.observe(BATCH, successes, counts)
    allocation = vip.allocate(BATCH, BUDGET)
    assert allocation.counts[:6].max() < allocation.counts[6:].min()
    assert (allocation.predicted[:6] < allocation.predicted[6:]).all()


@pytest.mark.parametrize("solver", [GreedySolver(), CvxpySolver()])
def test_all_solvers_reach_the_same_objective(solver):
    vip = taught(solver=solver)
    counts, reference = vip.allocate(BATCH, BUDGET).counts, taught().allocate(BATCH, BUDGET).counts
    belief = vip._predictor.predict(BATCH)
    value = OBJECTIVES["rloo"].value
    assert value(belief, counts) == pytest.approx(value(belief, reference), abs=1e-4)


def test_the_solver_is_given_the_predicted_belief():
    vip = taught(predictor=RidgeConfig())
    allocation = vip.allocate(BATCH, BUDGET)
    expected = closed_form(certain(allocation.predicted), BUDGET, 4, 16, "rloo")
    assert np.array_equal(allocation.counts, expected)


def test_the_baseline_is_the_moving_average_whatever_predicts():
    baseline = taught(predictor=MovingAverageConfig()).allocate(BATCH, BUDGET)
    other = taught(predictor=GpConfig()).allocate(BATCH, BUDGET)
    assert np.array_equal(baseline.predicted, baseline.baseline)
    assert np.array_equal(other.baseline, baseline.baseline)
    assert not np.array_equal(other.predicted, other.baseline)


@pytest.mark.parametrize("budget", [B * 4 - 1, B * 16 + 1])
def test_a_budget_out_of_reach_is_refused_with_the_legal_range(budget):
    with pytest.raises(ConfigError, match=rf"{B * 4} to {B * 16}"):
        allocator().allocate(BATCH, budget)


def test_a_fit_that_fails_at_prediction_gives_a_uniform_allocation_with_the_reason():
    broken = X.copy()
    broken[BATCH[0]] = np.nan
    vip = allocator(broken)
    teach(vip, range(3))
    allocation = vip.allocate(BATCH, BUDGET + 1)
    assert sorted(allocation.counts) == [8] * (B - 1) + [9]
    assert "Gaussian process" in allocation.fallback
    assert np.array_equal(allocation.predicted, allocation.baseline)


def test_a_fit_that_fails_at_observation_shows_at_the_next_allocation_and_after_a_resume():
    broken = X.copy()
    broken[0] = np.nan
    vip, resumed = (allocator(broken, predictor=GpConfig(mode=PaperGp())) for _ in range(2))
    vip.observe(np.array([0, 1]), np.ones(2), np.full(2, 4))
    resumed.restore(vip.state())
    for one in (vip, resumed):
        allocation = one.allocate(BATCH, BUDGET)
        assert allocation.counts.tolist() == [8] * B
        assert "Gaussian process" in allocation.fallback


def test_a_fit_that_succeeds_again_ends_the_fallback(monkeypatch):
    vip = allocator(predictor=GpConfig(mode=PaperGp()))
    with monkeypatch.context() as patch:
        patch.setattr(vip._predictor, "_shift", _fails)
        teach(vip, range(1))
    assert vip.allocate(BATCH, BUDGET).fallback == "broken"
    teach(vip, range(1, 2))
    allocation = vip.allocate(BATCH, BUDGET)
    assert allocation.fallback == ""
    assert np.ptp(allocation.counts) > 0


def _fails(*_: object) -> np.ndarray:
    raise NumericalError("broken")


def test_a_solver_without_time_gives_a_uniform_allocation_with_the_reason():
    allocation = taught(solver=CvxpySolver(deadline_s=1e-9)).allocate(BATCH, BUDGET)
    assert allocation.counts.tolist() == [8] * B
    assert "did not solve" in allocation.fallback
    assert not np.array_equal(allocation.predicted, allocation.baseline)


@pytest.mark.parametrize("predictor", PREDICTORS.values(), ids=PREDICTORS)
def test_a_restored_allocator_goes_on_bit_for_bit(predictor, tmp_path):
    through, resumed = taught(predictor=predictor), allocator(predictor=predictor)
    np.savez(tmp_path / "state.npz", allow_pickle=False, **through.state())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as state:
        resumed.restore(dict(state))
    for step in range(3, 6):
        expected, got = (vip.allocate(BATCH + step % 4, BUDGET) for vip in (through, resumed))
        assert np.array_equal(expected.counts, got.counts)
        assert np.array_equal(expected.predicted, got.predicted)
        assert np.array_equal(expected.baseline, got.baseline)
        assert expected.expected_collapse == got.expected_collapse
        teach(through, range(step, step + 1))
        teach(resumed, range(step, step + 1))


def test_a_state_of_another_embedding_size_is_refused():
    with pytest.raises(InputError, match="48 x 6"):
        allocator(X[:, :5]).restore(taught().state())


def test_a_state_with_parts_missing_is_refused():
    state = taught().state()
    for name in state:
        with pytest.raises(InputError):
            allocator().restore({n: a for n, a in state.items() if n != name})


def test_a_source_gets_its_share():
    share = SourceShare(source="logic", minimum=0.6)
    vip = taught(solver=CvxpySolver(constraints=(share,)))
    allocation = vip.allocate(BATCH, BUDGET)
    assert allocation.counts[BATCH >= Q // 2].sum() >= 0.6 * BUDGET
    assert allocation.fallback == ""


def test_a_share_of_a_source_that_does_not_exist_is_refused_at_once():
    share = SourceShare(source="logik", minimum=0.6)
    with pytest.raises(ConfigError, match="logic, maths"):
        allocator(solver=CvxpySolver(constraints=(share,)))


def test_a_token_budget_prices_each_prompt_at_its_observed_length():
    vip = taught(solver=CvxpySolver(constraints=(TokenBudget(tokens=60.0 * BUDGET),)))
    first = vip.allocate(BATCH, BUDGET)
    assert "no completion length is known yet" in first.fallback
    long = np.where(np.arange(Q) % 8 == 0, 100.0, 40.0)
    counts = np.full(Q, 10_000)
    vip.observe_lengths(np.arange(Q), long * counts, counts)
    allocation = vip.allocate(BATCH, BUDGET)
    assert allocation.fallback == ""
    assert allocation.counts @ long[BATCH] <= 60.0 * BUDGET * 1.001
    assert taught().allocate(BATCH, BUDGET).counts @ long[BATCH] > 60.0 * BUDGET


def test_sources_must_match_the_prompts():
    with pytest.raises(ValueError, match="47 sources"):
        VipAllocator(VipConfig(), X, SOURCES[1:])
