"""`rlvr doctor`: whether this machine can train, and what to do where it cannot."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rlvr_platform.cli.train import require_own_actors
from rlvr_platform.errors import ClusterError, InputError
from rlvr_platform.runtime import default_environment
from rlvr_platform.verifiers.sandbox import sandbox_status

GIB = 1 << 30
PROBE_TIMEOUT_S = 180.0
PARTS = ("ray", "deepspeed", "transformers", "gpytorch", "cvxpy", "math-verify", "pydantic")

TORCH_PROBE = """
import json, torch
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.0)
(weight * torch.tensor([1.0, -1.0, 2.0, -2.0])).sum().backward()
optimizer.step()
print(json.dumps({
    "version": torch.__version__,
    "cuda": torch.version.cuda,
    "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    "updates": (weight.detach() - 1).tolist(),
}))
"""
ENGINE_PROBE = """
import json, vllm
from vllm import AsyncEngineArgs
from vllm.platforms import current_platform
from vllm.v1.engine.async_llm import AsyncLLM
print(json.dumps({"version": vllm.__version__, "device": current_platform.device_type}))
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    fix: str = ""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its arguments."""
    parser = subparsers.add_parser(
        "doctor",
        help="check this machine",
        description="Versions, devices, compiler, space, engine and optimizer. Exits with 3 when "
        "something fails.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one line a check; returns 0, or 3 when one failed."""
    checks = list(examine())
    if args.json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        print("\n".join(_lines(checks)))
    return ClusterError.exit_code if any(c.status == "fail" for c in checks) else 0


def examine() -> Iterator[Check]:
    """Every check of this machine. Imports of torch and vLLM run in processes of their own."""
    with ThreadPoolExecutor(2) as pool:
        torch = pool.submit(_probe, TORCH_PROBE)
        engine = pool.submit(_probe, ENGINE_PROBE)
        yield check_python()
        yield from (check_part(name) for name in PARTS)
        yield check_actors()
        yield from (check_compiler(), check_ninja())
        yield from (check_memory(), check_shared_memory(), check_disk())
        yield from check_torch(torch.result())
        yield check_engine(engine.result())
        yield check_sandbox()


def check_python() -> Check:
    """The interpreter, which the project's metadata holds to 3.11 or newer."""
    return Check("python", "ok", f"{platform.python_version()} at {sys.executable}")


def check_part(name: str) -> Check:
    """The version of an installed distribution."""
    try:
        return Check(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(name, "fail", "not installed", "make setup")


def check_actors() -> Check:
    """Whether `import actors` finds ours."""
    try:
        require_own_actors()
    except InputError as error:
        return Check("actors", "fail", error.got, error.fix)
    return Check("actors", "ok", "the package of this repository")


def check_compiler() -> Check:
    """A C++ compiler, with which the engine compiles its model unless it is eager."""
    name = os.environ.get("CXX", "c++")
    path = shutil.which(name)
    if path is None:
        return Check("compiler", "fail", f"no {name}", "apt-get install g++, or set CXX")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
    return Check("compiler", "ok", (said.stdout.splitlines() or [path])[0])


def check_ninja() -> Check:
    """ninja, as a process of a run would find it."""
    path = shutil.which("ninja", path=default_environment()["PATH"])
    if path is None:
        return Check("ninja", "fail", "not found", "make setup")
    return Check("ninja", "ok", path)


def check_memory() -> Check:
    """Free memory: the smallest configuration needs a few GiB."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    kib = {key: int(rest.split()[0]) for key, _, rest in (line.partition(":") for line in lines)}
    free = kib["MemAvailable"] / (1 << 20)
    found = f"{free:.1f} GiB available of {kib['MemTotal'] / (1 << 20):.1f}"
    if free < 8:
        return Check("memory", "warn", found, "configs/dev wants 8 GiB: close other programs")
    return Check("memory", "ok", found)


def check_shared_memory() -> Check:
    """/dev/shm: Ray's objects and the weights travel through it."""
    fix = "docker run --shm-size=4g, or mount -o remount,size=4g /dev/shm"
    return _check_space("shared memory", Path("/dev/shm"), 1, "fail", fix)


def check_disk() -> Check:
    """Space for runs below the working directory."""
    return _check_space("disk", Path.cwd(), 5, "warn", "free some space, or use --run-dir")


def _check_space(
    name: str, folder: Path, wanted_gib: int, below: Literal["warn", "fail"], fix: str
) -> Check:
    if not folder.is_dir():
        return Check(name, below, f"no {folder}", fix)
    free = shutil.disk_usage(folder).free / GIB
    if free < wanted_gib:
        return Check(name, below, f"{free:.1f} GiB free on {folder}, wanted {wanted_gib}", fix)
    return Check(name, "ok", f"{free:.1f} GiB free on {folder}")


def check_torch(probe: dict[str, Any]) -> Iterator[Check]:
    """The build of torch, its devices, and one step of AdamW against its closed form."""
    if "error" in probe:
        yield Check("torch", "fail", probe["error"], "make setup")
        return
    build = f"CUDA {probe['cuda']}" if probe["cuda"] else "CPU build"
    yield Check("torch", "ok", f"{probe['version']}, {build}")
    if probe["devices"]:
        yield Check("devices", "ok", ", ".join(probe["devices"]))
    elif probe["cuda"]:
        fix = "nvidia-smi shows whether the driver works; on a CPU machine: make setup"
        yield Check("devices", "warn", "a CUDA build of torch, but no GPU", fix)
    else:
        yield Check("devices", "ok", f"{os.cpu_count()} CPU cores")
    # AdamW's first step moves each weight by the learning rate against its gradient's sign.
    off = max(abs(u - w) for u, w in zip(probe["updates"], (-0.1, 0.1, -0.1, 0.1), strict=True))
    status: Literal["ok", "fail"] = "ok" if off < 1e-5 else "fail"
    yield Check(
        "optimizer", status, f"AdamW is off by {off:.1g}", "" if off < 1e-5 else "make setup"
    )


def check_engine(probe: dict[str, Any]) -> Check:
    """vLLM imports, and what it would run on."""
    if "error" in probe:
        return Check("engine", "fail", probe["error"], "make setup")
    if not probe["device"]:
        return Check("engine", "fail", "vLLM finds no device to run on", "make setup, or GPU=1")
    return Check("engine", "ok", f"vLLM {probe['version']} on {probe['device']}")


def check_sandbox() -> Check:
    """Whether programs can be judged; only the code verifier needs it."""
    status = sandbox_status()
    if status.ok:
        return Check("sandbox", "ok", status.message)
    fix = f"{status.fix} (only verifier.use.kind=code needs it)"
    return Check("sandbox", "warn", status.message, fix)


def _probe(script: str) -> dict[str, Any]:
    """Run a script that prints JSON on its last line; {"error": reason} when it does not."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            env={**os.environ, **default_environment()},
        )
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {PROBE_TIMEOUT_S:.0f} s"}
    return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]}


def _lines(checks: list[Check]) -> Iterator[str]:
    width = max(len(check.name) for check in checks)
    for check in checks:
        yield f"{check.status:<4}  {check.name:<{width}}  {check.found}"
        if check.fix:
            yield f"{'':<{width + 8}}to fix: {check.fix}"
    counts = {s: sum(c.status == s for c in checks) for s in ("ok", "warn", "fail")}
    yield ", ".join(f"{count} {status}" for status, count in counts.items())
