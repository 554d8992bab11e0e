"""Reading DeepSpeed's checkpoints as data: a run folder may come from somebody else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pickle import UnpicklingError

import torch

from rlvr_platform.errors import InputError

_SWITCH = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


@contextmanager
def weights_only() -> Iterator[None]:
    """Inside, `torch.load` builds tensors, plain values and DeepSpeed's own records, nothing else.

    DeepSpeed asks torch to unpickle its files whole, which runs whatever code is in them.
    Raises InputError when a file holds anything else.
    """
    from deepspeed.runtime.fp16.loss_scaler import LossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    before = os.environ.get(_SWITCH)
    os.environ[_SWITCH] = "1"
    try:
        with torch.serialization.safe_globals([LossScaler, ZeroStageEnum, fragment_address]):
            yield
    except UnpicklingError as error:
        raise InputError(
            f"a checkpoint file holds more than data: {str(error).splitlines()[0]}",
            "a checkpoint that this version wrote: tensors, numbers and text",
            "do not resume from it unless you know who wrote it; its model/ folder is safetensors",
        ) from None
    finally:
        if before is None:
            del os.environ[_SWITCH]
        else:
            os.environ[_SWITCH] = before
