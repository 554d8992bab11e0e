import os
from pathlib import Path

import pytest
import torch

from actors.weights_only import weights_only
from rlvr_platform.errors import InputError


class Planted:
    """Runs code when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self._mark),)


def test_a_planted_object_is_refused_and_its_code_does_not_run(tmp_path: Path) -> None:
    file, mark = tmp_path / "state.pt", tmp_path / "ran"
    torch.save({"optimizer": Planted(mark), "w": torch.ones(2)}, file)
    with pytest.raises(InputError, match="holds more than data"), weights_only():
        torch.load(file, weights_only=False)
    assert not mark.exists()
    torch.load(file, weights_only=False)
    assert mark.exists()  # the file was a loaded gun


def test_what_deepspeed_writes_beside_tensors_is_read(tmp_path: Path) -> None:
    from deepspeed.runtime.fp16.loss_scaler import LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    file = tmp_path / "state.pt"
    state = {
        "loss_scaler": LossScaler(scale=4.0),
        "zero_stage": ZeroStageEnum.weights,
        "slices": [{"a": fragment_address(numel=3, start=1)}],
        "tensor": torch.arange(3),
    }
    torch.save(state, file)
    with weights_only():
        found = torch.load(file, weights_only=False)
    assert found["loss_scaler"].loss_scale == 4.0
    assert (found["zero_stage"], found["slices"]) == (state["zero_stage"], state["slices"])


@pytest.mark.parametrize("before", [None, "0"])
def test_the_environment_is_as_before_afterwards(before, monkeypatch) -> None:
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    if before is not None:
        monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", before)
    with pytest.raises(ZeroDivisionError), weights_only():
        1 / 0  # noqa: B018
    assert os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD") == before
