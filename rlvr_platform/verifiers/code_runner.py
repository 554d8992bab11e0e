"""The first code that runs in a sandbox: applies limits, then takes up its role.

`program` runs a source text as a script; `solution` serves its functions to tests; `harness` runs
tests. Runs by itself, so it imports nothing but the standard library and its neighbours.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import types

_PR_SET_PDEATHSIG = 1
_STACK = 120 << 20


def main(role: str, *numbers: str) -> None:
    """See Sandbox.start for the arguments."""
    source_fd, began_fd, channel_fd, unsafe, *limits = map(int, numbers)
    if unsafe:
        _die_with_parent()
    source = _read(source_fd).decode(errors="surrogatepass")
    _limit(*limits, counts_alone=not unsafe)
    os.write(began_fd, b"began")
    os.close(began_fd)
    sys.argv = ["solution.py"]
    sys.path.append("/packages")
    if role == "program":
        run_program(source)
        return
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))
    channel = socket.socket(fileno=channel_fd)
    if role == "solution":
        from rlvr_platform.verifiers.code_solution import serve

        serve(channel, source)
    else:
        from rlvr_platform.verifiers.code_harness import run_tests

        run_tests(channel, source)


def run_program(source: str) -> None:
    """Run `source` as `python solution.py` would."""
    module = types.ModuleType("__main__")
    module.__file__ = "solution.py"
    sys.modules["__main__"] = module
    exec(compile(source, "solution.py", "exec", dont_inherit=True), module.__dict__)


def _die_with_parent() -> None:
    import ctypes  # Costs more than the rest of this module; a sandbox sees to this by itself.

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _limit(
    cpu_s: int, memory: int, file: int, open_files: int, threads: int, *, counts_alone: bool
) -> None:
    # The main thread's stack grows on demand; the kernel keeps no more than this free for it.
    resource.setrlimit(
        resource.RLIMIT_STACK, (_STACK, resource.getrlimit(resource.RLIMIT_STACK)[1])
    )
    limits = {"CPU": cpu_s, "AS": memory, "FSIZE": file, "NOFILE": open_files}
    if counts_alone:  # Outside a user namespace every process of the user counts.
        limits["NPROC"] = threads
    for name, most in {**limits, "CORE": 0}.items():
        what = getattr(resource, f"RLIMIT_{name}")
        _, inherited = resource.getrlimit(what)
        if inherited != resource.RLIM_INFINITY and most > inherited:
            raise SystemExit(f"the limit {name} is {most}, this process has only {inherited}")
        resource.setrlimit(what, (most, most))


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
