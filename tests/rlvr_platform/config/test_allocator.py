import pytest
from pydantic import TypeAdapter, ValidationError

from rlvr_platform.config.allocator import (
    AllocatorConfig,
    GpConfig,
    MovingAverageConfig,
    PaperGp,
    PolicyEmbedding,
    RobustGp,
    UniformAllocator,
    VipConfig,
)


def read(tree: dict) -> AllocatorConfig:
    return TypeAdapter(AllocatorConfig).validate_python(tree)


def test_a_kind_alone_is_enough():
    assert read({"kind": "uniform"}) == UniformAllocator()
    vip = read({"kind": "vip"})
    assert vip == VipConfig()
    assert vip.predictor == GpConfig(mode=RobustGp(), length_scale="median")
    assert vip.embedding == PolicyEmbedding()
    assert (vip.min_rollouts, vip.max_rollouts, vip.objective) == (4, 16, "rloo")


def test_predictor_mode_and_length_scale_are_read():
    gp = {"kind": "gp", "mode": {"kind": "paper"}, "length_scale": 0.4}
    assert read({"kind": "vip", "predictor": gp}).predictor == GpConfig(
        mode=PaperGp(), length_scale=0.4
    )
    average = read({"kind": "vip", "predictor": {"kind": "moving_average", "decay": 1.0}})
    assert average.predictor == MovingAverageConfig(decay=1.0)


@pytest.mark.parametrize(
    "predictor",
    [
        {"kind": "gp", "length_scale": 0.0},
        {"kind": "gp", "length_scale": "mean"},
        {"kind": "gp", "mode": {"kind": "paper", "window": 9}},
        {"kind": "gp", "mode": {"kind": "robust", "own_share": 1.0}},
        {"kind": "gp", "mode": {"kind": "robust", "decay": 0.0}},
        {"kind": "moving_average", "decay": 1.1},
        {"kind": "oracle"},
    ],
)
def test_settings_that_mean_nothing_are_refused(predictor):
    with pytest.raises(ValidationError):
        read({"kind": "vip", "predictor": predictor})
