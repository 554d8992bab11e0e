"""One vLLM AsyncLLM engine: tokens in, tokens out, weights replaced between or under requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
from ray.exceptions import RayError

from actors.deadlines import within
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import DeadlineError, EngineLost, SyncError
from rlvr_platform.runtime import thread_environment
from rlvr_platform.types import Finish, RolloutGroup, Ticket

BACKEND = "shared_memory"
"""Name under which the shared-memory transport is registered with vLLM."""

EXTENSION = "actors.engine_extension.EngineExtension"
"""The module that registers it, imported by vLLM in the engine's process."""

CPU_BLOCK_TOKENS = 32
"""KV block size on CPU: at the engine's own 128, short prompts never hit the prefix cache."""

IN_PROCESS_EXECUTOR = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
"""On CPU vLLM would give its only worker a process of its own, which waits for work in a loop
that takes a whole core for a second after every step: the core that the learner needs."""

ALIVE_POLL_S = 0.25
"""Between looks at whether the engine's process lives."""

_FINISH = {"stop": Finish.STOP, "length": Finish.LENGTH}


def engine_environment(config: ExperimentConfig) -> dict[str, str]:
    """Environment that vLLM reads once, at import: it must be set before the process starts."""
    shared = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    if config.sync.transport == "ipc":
        # Memory handles reach the engine pickled, from our own learner on the same GPU only.
        shared["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    if config.cluster.device == "gpu":
        return shared
    return {
        **shared,
        **thread_environment(config.rollout.engine.threads),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }


def engine_arguments(config: ExperimentConfig, model: str) -> dict[str, Any]:
    """Arguments of vLLM's AsyncEngineArgs."""
    from vllm.config import WeightTransferConfig

    engine = config.rollout.engine
    cpu = config.cluster.device == "cpu"
    backend = BACKEND if config.sync.transport == "object_store" else config.sync.transport
    optional = {
        "max_num_batched_tokens": engine.max_batched_tokens,
        "block_size": engine.block_size or (CPU_BLOCK_TOKENS if cpu else None),
        "gpu_memory_utilization": None if cpu else engine.gpu_memory_fraction,
        "kv_cache_memory_bytes": int(engine.kv_cache_gib * 2**30) if cpu else None,
        "distributed_executor_backend": IN_PROCESS_EXECUTOR if cpu else None,
    }
    return {
        "model": model,
        "skip_tokenizer_init": True,
        "trust_remote_code": config.trust_remote_code,
        "load_format": "safetensors",
        "dtype": engine.dtype,
        "enforce_eager": engine.eager,
        "tensor_parallel_size": engine.tensor_parallel,
        "max_model_len": config.window,
        "max_num_seqs": engine.max_sequences,
        "seed": config.seed,
        # The behaviour policy is what sampling drew from, temperature and top_p applied.
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "worker_extension_cls": EXTENSION,
        "weight_transfer_config": WeightTransferConfig(backend=backend),
    } | {key: value for key, value in optional.items() if value is not None}


class Engine:
    """An AsyncLLM with the platform's vocabulary: groups, versions, probes."""

    def __init__(self, llm: Any, config: ExperimentConfig, stop_tokens: Sequence[int]) -> None:
        self._llm = llm
        self._config = config
        self._stop_tokens = list(stop_tokens)
        self._requests = 0
        self._in_flight = 0
        self._open = asyncio.Event()
        self._open.set()

    @classmethod
    async def start(
        cls, config: ExperimentConfig, model: str, stop_tokens: Sequence[int]
    ) -> Engine:
        """Build the engine inside the running event loop and label its weights version 0."""
        from vllm import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = AsyncEngineArgs(**engine_arguments(config, model))
        llm = AsyncLLM.from_engine_args(arguments)
        await llm.update_weight_version("0")
        engine = cls(llm, config, stop_tokens)
        await engine.logprobs(np.arange(2, dtype=np.int32))
        return engine

    async def init_transfer(self, init_info: dict[str, Any]) -> None:
        """Open the weight-transfer connection; `init_info` belongs to the transport."""
        from vllm.distributed.weight_transfer.base import WeightTransferInitRequest

        await self._llm.init_weight_transfer_engine(WeightTransferInitRequest(init_info))

    async def generate(self, ticket: Ticket, temperature: float) -> RolloutGroup:
        """Sample the ticket's completions (texts left empty: decoding is not the engine's).

        Raises DeadlineError when the group is not finished in time.
        """
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        rollout = self._config.rollout
        sampling = SamplingParams(
            n=ticket.n,
            temperature=temperature,
            top_p=rollout.top_p if temperature > 0 else 1.0,
            max_tokens=rollout.max_new_tokens,
            seed=ticket.seed,
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            stop_token_ids=self._stop_tokens,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        what = f"group {ticket.group_id} (prompt {ticket.prompt.index} of {ticket.prompt.source})"
        output = await self._request(ticket.prompt.tokens, sampling, rollout.group_timeout_s, what)
        return _group(ticket, sorted(output.outputs, key=lambda completion: completion.index))

    async def logprobs(self, tokens: np.ndarray) -> np.ndarray:
        """float32 [P-1]: log-probabilities of tokens 1..P-1 at temperature 1, nats."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = SamplingParams(
            max_tokens=1,
            temperature=0.0,
            prompt_logprobs=0,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        limit_s = self._config.sync.timeout_s
        try:
            output = await self._request(tokens, sampling, limit_s, "the probe")
        except DeadlineError as error:
            raise EngineLost(error.got, "log-probabilities of the probe", error.fix) from None
        entries = output.prompt_logprobs[1:]
        pairs = zip(entries, tokens[1:].tolist(), strict=True)
        return np.array([entry[token].logprob for entry, token in pairs], dtype=np.float32)

    async def _request(self, tokens: np.ndarray, sampling: Any, timeout_s: float, what: str) -> Any:
        self._requests += 1
        request = f"r{self._requests}"
        try:
            async with asyncio.timeout(timeout_s):
                await self._open.wait()
                return await self._run(tokens, sampling, request)
        except TimeoutError:
            raise DeadlineError(
                f"the engine did not finish {what} in {timeout_s:g} s",
                "every group to finish",
                "raise rollout.group_timeout_s, or lower rollout.max_new_tokens",
            ) from None

    async def _run(self, tokens: np.ndarray, sampling: Any, request: str) -> Any:
        from vllm.v1.engine.exceptions import EngineDeadError

        self._in_flight += 1
        try:
            prompt = {"prompt_token_ids": tokens.tolist()}
            return [output async for output in self._llm.generate(prompt, sampling, request)][-1]
        except EngineDeadError as error:
            raise EngineLost(f"the engine's process is dead: {error}") from None
        finally:
            self._in_flight -= 1

    async def load(self, updates: AsyncIterator[dict[str, Any]], version: int) -> None:
        """Replace the weights; requests in flight go on with the new ones.

        `updates` yields the transport's update messages, one per chunk of the weights.
        Raises SyncError naming the phase that failed, EngineLost when the engine is dead, does
        not answer in time or is left between two versions.
        """
        self._open.clear()
        held = self._in_flight > 0
        try:
            if held:
                await self._phase("pause", self._llm.pause_generation(mode="keep"))
            elif not await self._phase("clear cache", self._llm.reset_prefix_cache()):
                raise SyncError(
                    "the engine did not clear its prefix cache: it holds blocks of a request",
                    "an idle engine",
                    "report this: entries of the old weights would be reused unseen",
                )
            await self._replace_weights(updates, version)
            if held:
                await self._phase("resume", self._llm.resume_generation())
        finally:
            self._open.set()

    async def _replace_weights(self, updates: AsyncIterator[dict[str, Any]], version: int) -> None:
        from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

        # Fetched before the update is open: an engine whose update cannot go on is of no use.
        limit_s, who = self._config.sync.timeout_s, f"the weights of version {version}"
        first = await within(anext(updates), limit_s, who, "see the learners' logs")
        await self._phase("start", self._llm.start_weight_update())
        await self._phase("update", self._llm.update_weights(WeightTransferUpdateRequest(first)))
        try:
            async for update in updates:
                request = WeightTransferUpdateRequest(update)
                await self._phase("update", self._llm.update_weights(request))
        except RayError as error:
            raise EngineLost(
                f"half of the weights of version {version} are lost: {error}"
            ) from None
        finish = self._llm.finish_weight_update(weight_version=str(version))
        await self._phase("finish", finish)

    async def version(self) -> int:
        """The weight version that the engine says it has."""
        return int(await self._phase("version", self._llm.get_weight_version()))

    async def _phase(self, name: str, work: Any) -> Any:
        from vllm.v1.engine.exceptions import EngineDeadError

        timeout_s = self._config.sync.timeout_s
        failed = f"weight sync failed in the engine's phase '{name}'"
        try:
            async with asyncio.timeout(timeout_s):
                return await self._while_alive(work)
        except TimeoutError:
            raise EngineLost(f"{failed}: no answer within {timeout_s:g} s") from None
        except EngineDeadError as error:
            raise EngineLost(f"{failed}: {error}") from None
        except Exception as error:  # the engine's own error types vary by phase
            raise SyncError(
                f"{failed}: {type(error).__name__}: {error}",
                "every phase to finish",
                "see the engine's log above",
            ) from None

    async def _while_alive(self, work: Any) -> Any:
        """Await `work`. vLLM lets a call wait for ever when the engine dies under it."""
        from vllm.v1.engine.exceptions import EngineDeadError

        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=ALIVE_POLL_S))[0]:
                if self._llm.errored:
                    raise EngineDeadError
            return task.result()
        finally:
            task.cancel()

    def shutdown(self) -> None:
        self._llm.shutdown()


def _group(ticket: Ticket, completions: Sequence[Any]) -> RolloutGroup:
    lengths = [len(completion.token_ids) for completion in completions]
    total = sum(lengths)
    return RolloutGroup(
        ticket=ticket,
        tokens=np.fromiter(
            (t for c in completions for t in c.token_ids), dtype=np.int32, count=total
        ),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        loss_mask=np.ones(total, dtype=bool),
        logprobs=np.fromiter(
            (p for c in completions for p in c.logprobs.logprobs), dtype=np.float32, count=total
        ),
        versions=np.concatenate([_versions(c) for c in completions]),
        finish=np.array(
            [_FINISH.get(c.finish_reason, Finish.ABORT) for c in completions], dtype=np.uint8
        ),
        texts=(),
    )


def _versions(completion: Any) -> np.ndarray:
    versions = np.empty(len(completion.token_ids), dtype=np.int32)
    for span in completion.weight_versions:
        versions[span.start : span.end] = int(span.version)
    return versions
