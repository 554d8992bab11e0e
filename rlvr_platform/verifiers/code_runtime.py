"""What of the host a sandboxed program sees: the interpreter, its standard library, and the shared
libraries these load. Nothing else, not even installed packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

_HOME = "/python"
_LDD_DEADLINE_S = 60.0
_LIBRARY = re.compile(r"^\s*(?P<name>\S+)(?: => (?P<path>/\S+))? \(0x[0-9a-f]+\)$", re.MULTILINE)
PLATFORM_FILES = ("code_runner.py", "code_harness.py", "code_wire.py")


@dataclass(frozen=True, slots=True)
class Runtime:
    """Paths inside and outside of the sandbox."""

    binds: tuple[tuple[str, str], ...]
    """(path on the host, path inside), all read-only."""
    masks: tuple[str, ...]
    """Folders inside that are covered by an empty one."""
    executable: str = f"{_HOME}/bin/python3"
    library_path: str = f"{_HOME}/shared"
    import_path: str = "/platform"


def find_runtime() -> Runtime:
    """The interpreter that runs this, without its virtual environment."""
    executable = os.path.realpath(base_executable())
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    standard = sysconfig.get_path("stdlib")
    inside = f"{_HOME}/{sys.platlibdir}/{version}"
    extensions = sysconfig.get_config_var("DESTSHARED") or f"{standard}/lib-dynload"
    binds = [(executable, Runtime.executable), (standard, inside)]
    if not Path(extensions).is_relative_to(standard):
        binds.append((extensions, f"{inside}/lib-dynload"))
    binds += [
        (path, path if name.startswith("/") else f"{Runtime.library_path}/{name}")
        for name, path in _libraries([executable, *map(str, Path(extensions).glob("*.so"))])
    ]
    here = Path(__file__).parent
    package = f"{Runtime.import_path}/rlvr_platform/verifiers"
    binds += [(str(here / name), f"{package}/{name}") for name in PLATFORM_FILES]
    masked = [name for name in ("site-packages", "dist-packages") if Path(standard, name).is_dir()]
    return Runtime(tuple(binds), tuple(f"{inside}/{name}" for name in masked))


def base_executable() -> str:
    """The interpreter outside of any virtual environment."""
    return getattr(sys, "_base_executable", sys.executable)


def _libraries(files: list[str]) -> list[tuple[str, str]]:
    """(name, path on the host) of everything that `files` load; the loader's name is its path."""
    listing = subprocess.run(
        ["ldd", *files], capture_output=True, text=True, timeout=_LDD_DEADLINE_S, check=False
    ).stdout
    found = {
        match["name"]: match["path"] or match["name"]
        for match in _LIBRARY.finditer(listing)
        if match["path"] or match["name"].startswith("/")
    }
    return sorted((name, path) for name, path in found.items())
