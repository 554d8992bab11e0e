"""What runs inside the engine's own process: the shared-memory weight transfer.

vLLM imports this module there because `worker_extension_cls` names `EngineExtension`;
importing it registers the transport with vLLM's weight-transfer factory.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import safe_open
from tqdm import tqdm
from vllm.distributed.weight_transfer import WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.model_executor.model_loader.reload import (
    finalize_layerwise_reload,
    initialize_layerwise_reload,
)

from actors.engine import BACKEND

# Its default lock is a named semaphore in /dev/shm, which stays there when the engine is killed.
tqdm.set_lock(threading.RLock())


class EngineExtension:
    """Adds nothing to the worker; its module is the point."""


@dataclass
class SharedMemoryInit(WeightTransferInitInfo):
    retie_head: bool = True
    """Off only in the test that shows what the repair prevents."""


@dataclass
class SharedMemoryUpdate(WeightTransferUpdateInfo):
    path: str
    """A safetensors file on this node, names as in the Hugging Face checkpoint."""


class SharedMemoryTransfer(WeightTransferEngine[SharedMemoryInit, SharedMemoryUpdate]):
    """Loads a safetensors file through vLLM's layerwise reload."""

    init_info_cls = SharedMemoryInit
    update_info_cls = SharedMemoryUpdate
    retie_head = True

    def init_transfer_engine(self, init_info: SharedMemoryInit) -> None:
        self.retie_head = init_info.retie_head

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: SharedMemoryUpdate) -> None:
        with safe_open(update_info.path, framework="pt") as tensors:
            names = tensors.keys()
            self.model.load_weights((name, tensors.get_tensor(name)) for name in names)

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)
        if self.retie_head:
            _retie_head(self.model)

    def update_weights(self, update_info: dict[str, object]) -> None:
        self.receive_weights(self.parse_update_info(update_info))
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def shutdown(self) -> None:
        """Nothing is held between updates."""


def _retie_head(model: torch.nn.Module) -> None:
    """Give a tied head the new embedding.

    A tied head is not in the checkpoint, so the reload never touches it. On CPU its
    weight was packed for the matrix kernel at start-up: without this the engine would
    answer with new layers and the old head, and no error.
    """
    head: Any = getattr(model, "lm_head", None)
    body = getattr(model, "model", None)
    embedding = getattr(body, "embed_tokens", None)
    tied = getattr(getattr(model, "config", None), "tie_word_embeddings", False)
    if not tied or head is None or embedding is None or head is embedding:
        return
    head.weight = embedding.weight
    head.quant_method.process_weights_after_loading(head)


WeightTransferEngineFactory.register_engine(BACKEND, SharedMemoryTransfer)
