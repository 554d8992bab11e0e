"""Runs untrusted Python programs: bubblewrap's namespaces around a bare root, plus limits.

A program gets its own user, process, mount, network, IPC and host-name namespaces; a read-only
root with the interpreter (see code_runtime.py) and nothing else of the host, neither /proc nor
/etc; an empty work folder /tmp; no environment. It is one process (see code_seccomp.py), so its
limits are those of the whole run. It writes to files in memory whose size is limited, so output
cannot flood whoever reads it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rlvr_platform.errors import ConfigError, VerifierError
from rlvr_platform.verifiers.code_run import Ended, Limits, Run
from rlvr_platform.verifiers.code_runtime import (
    EXECUTABLE,
    LIBRARY_PATH,
    PLATFORM_FOLDER,
    Runtime,
    find_runtime,
)
from rlvr_platform.verifiers.code_seccomp import one_process_filter, supported

_MIB = 1 << 20
_USER = "65534"
_PYTHON_FLAGS = ("-I", "-B", "-X", "utf8", "-X", "int_max_str_digits=0")
_ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
_INSTALL = "install bubblewrap: `apt-get install bubblewrap` or `dnf install bubblewrap`"
_NAMESPACES = (
    "bwrap (0.7 or newer) needs unprivileged user namespaces. Host: `sysctl "
    "user.max_user_namespaces` above 0, kernel.unprivileged_userns_clone=1 and "
    "kernel.apparmor_restrict_unprivileged_userns=0 where they exist. Docker: --security-opt "
    "seccomp=unconfined --security-opt apparmor=unconfined. Kubernetes: seccompProfile and "
    "appArmorProfile of type Unconfined"
)
_PROBE_DEADLINE_S = 20.0
_PROBE = """
import bz2, ctypes, decimal, hashlib, json, lzma, os, random, socket, zlib
assert not os.path.exists("/etc") and not os.path.exists("/proc")
for refused in (os.fork, socket.socket):
    try:
        refused()
    except PermissionError:
        continue
    raise SystemExit(f"{refused.__name__} works inside the sandbox")
open("/tmp/file", "w").write("x")
print("sound")
"""


class SandboxStatus(NamedTuple):
    """Whether programs can be run in a sandbox here."""

    ok: bool
    message: str
    fix: str
    """What to do; empty when all is well."""


class Sandbox:
    """Starts programs under `limits`; one object serves any number of runs.

    Raises ConfigError when sandboxes cannot be had here, unless `unsafe`.
    """

    def __init__(
        self, limits: Limits, packages: tuple[str, ...] = (), unsafe: bool = False
    ) -> None:
        self.limits, self.unsafe = limits, unsafe
        self._prefix: list[str] = []
        if unsafe:
            return
        bwrap = _find_bubblewrap()
        try:
            self._prefix = _bubblewrap(bwrap, find_runtime(packages), limits)
            probe = self._probe()
        except (OSError, VerifierError, subprocess.SubprocessError) as error:
            raise _no_sandbox(str(error), _NAMESPACES) from None
        if probe.stdout != b"sound\n":
            raise _no_sandbox(f"the sandbox is not sound: {probe.reason}", _NAMESPACES)

    def _probe(self) -> Ended:
        limits = self.limits
        self.limits = replace(limits, wall_s=_PROBE_DEADLINE_S, cpu_s=int(_PROBE_DEADLINE_S))
        try:
            return self.run(_PROBE)
        finally:
            self.limits = limits

    def run(self, source: str, stdin: bytes = b"") -> Ended:
        """Run `source` as a program to its end."""
        return self.start("program", source, stdin).wait()

    def start(
        self, role: str, source: str, stdin: bytes = b"", channel: socket.socket | None = None
    ) -> Run:
        """Start code_runner.py in a role with a source text; `channel` is inherited."""
        files = {
            "stdin": _memory_file(stdin),
            "source": _memory_file(source.encode(errors="surrogatepass")),
            **{name: _memory_file() for name in ("stdout", "stderr", "began")},
        }
        shared = -1 if channel is None else channel.fileno()
        folder = tempfile.mkdtemp(prefix="rlvr-unsafe-") if self.unsafe else ""
        try:
            with self._command(role, files, shared) as (command, descriptors):
                process = subprocess.Popen(
                    command,
                    stdin=files["stdin"],
                    stdout=files["stdout"],
                    stderr=files["stderr"],
                    pass_fds=descriptors,
                    env=_ENVIRONMENT,
                    cwd=folder or "/",
                    start_new_session=self.unsafe,
                )
        except BaseException:
            for descriptor in files.values():
                os.close(descriptor)
            raise
        return Run(process, files, self.limits, folder)

    @contextlib.contextmanager
    def _command(
        self, role: str, files: dict[str, int], channel: int
    ) -> Iterator[tuple[list[str], list[int]]]:
        limits = self.limits
        numbers = (
            *(files["source"], files["began"], channel, int(self.unsafe), limits.cpu_s),
            *(limits.memory_mib * _MIB, limits.file_mib * _MIB, limits.open_files, limits.threads),
        )
        descriptors = [files["source"], files["began"], *([channel] if channel >= 0 else [])]
        arguments = [role, *map(str, numbers)]
        if self.unsafe:
            runner = str(Path(__file__).with_name("code_runner.py"))
            yield [sys.executable, *_PYTHON_FLAGS, runner, *arguments], descriptors
            return
        seccomp = _memory_file(one_process_filter())
        runner = f"{PLATFORM_FOLDER}/code_runner.py"
        prefix = [*self._prefix, "--seccomp", str(seccomp), "--", EXECUTABLE]
        try:
            yield [*prefix, *_PYTHON_FLAGS, runner, *arguments], [*descriptors, seccomp]
        finally:
            os.close(seccomp)


def sandbox_status() -> SandboxStatus:
    """Whether code can be judged here: tries a real sandbox. Takes about half a second."""
    try:
        Sandbox(Limits())
    except ConfigError as error:
        return SandboxStatus(False, error.got, error.fix)
    return SandboxStatus(True, f"{_find_bubblewrap()} isolates programs", "")


def _find_bubblewrap() -> str:
    if not sys.platform.startswith("linux") or not supported():
        raise _no_sandbox("no sandbox for this platform", "use Linux on x86_64 or aarch64")
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise _no_sandbox("bubblewrap (the program bwrap) is not installed", _INSTALL)
    return bwrap


def _no_sandbox(got: str, fix: str) -> ConfigError:
    unsafe = "or, for programs you trust, set unsafe_no_sandbox=true"
    return ConfigError(got, "a sandbox to run programs in", f"{fix}; {unsafe}")


def _bubblewrap(bwrap: str, runtime: Runtime, limits: Limits) -> list[str]:
    """The command up to the program; root, empty but for the interpreter, turns read-only last."""
    command = [bwrap, "--unshare-all", "--unshare-user"]
    command += ["--uid", _USER, "--gid", _USER, "--hostname", "sandbox", "--cap-drop", "ALL"]
    command += ["--die-with-parent", "--new-session"]
    command += ["--setenv", "LD_LIBRARY_PATH", LIBRARY_PATH]
    for outside, inside in runtime.binds:
        command += ["--ro-bind", outside, inside]
    for folder in runtime.masks:
        command += ["--tmpfs", folder, "--remount-ro", folder]
    for device in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"):
        command += ["--dev-bind", device, device]
    command += ["--size", str(limits.file_mib * _MIB), "--tmpfs", "/tmp", "--chdir", "/tmp"]
    return [*command, "--remount-ro", "/"]


def _memory_file(content: bytes = b"") -> int:
    descriptor = os.memfd_create("rlvr")
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
