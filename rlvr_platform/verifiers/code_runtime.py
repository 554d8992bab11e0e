"""What of the host a sandboxed program sees: the interpreter, its standard library, packages asked
for by name, and the shared libraries these load."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from rlvr_platform.errors import ConfigError

_HOME = "/python"
EXECUTABLE = f"{_HOME}/bin/python3"
"""The interpreter inside."""
LIBRARY_PATH = f"{_HOME}/shared"
"""Folder of shared libraries inside."""
PACKAGES_FOLDER = "/packages"
"""Folder of installed packages inside; the runner puts it on the import path."""
PLATFORM_FOLDER = "/platform/rlvr_platform/verifiers"
"""Folder of PLATFORM_FILES inside."""
PLATFORM_FILES = (
    "code_runner.py",
    "code_solution.py",
    "code_harness.py",
    "code_remote.py",
    "code_wire.py",
)
"""The modules of this package that run inside."""
_LDD_DEADLINE_S = 60.0
_LIBRARY = re.compile(r"^\s*(?P<name>\S+)(?: => (?P<path>/\S+))? \(0x[0-9a-f]+\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Runtime:
    """Paths inside and outside of the sandbox."""

    binds: tuple[tuple[str, str], ...]
    """(path on the host, path inside), all read-only."""
    masks: tuple[str, ...]
    """Folders inside that are covered by an empty one."""


def find_runtime(packages: tuple[str, ...]) -> Runtime:
    """The interpreter that runs this, without its virtual environment, and `packages`.

    Raises ConfigError for a package that is not installed.
    """
    executable = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    standard = sysconfig.get_path("stdlib")
    inside = f"{_HOME}/{sys.platlibdir}/{version}"
    extensions = sysconfig.get_config_var("DESTSHARED") or f"{standard}/lib-dynload"
    binds = [(executable, EXECUTABLE), (standard, inside)]
    if not Path(extensions).is_relative_to(standard):
        binds.append((extensions, f"{inside}/lib-dynload"))
    folders = [folder for package in packages for folder in _package_folders(package)]
    binds += [(str(folder), f"{PACKAGES_FOLDER}/{folder.name}") for folder in folders]
    modules = [str(path) for folder in folders for path in folder.rglob("*.so*")]
    binds += [
        (path, path if name.startswith("/") else f"{LIBRARY_PATH}/{name}")
        for name, path in _libraries([executable, *_extension_modules(Path(extensions)), *modules])
        if not any(Path(path).is_relative_to(folder) for folder in folders)
    ]
    here = Path(__file__).parent
    binds += [(str(here / name), f"{PLATFORM_FOLDER}/{name}") for name in PLATFORM_FILES]
    masked = [name for name in ("site-packages", "dist-packages") if Path(standard, name).is_dir()]
    return Runtime(tuple(binds), tuple(f"{inside}/{name}" for name in masked))


def _package_folders(package: str) -> list[Path]:
    """A package, and the shared libraries that its wheel put beside it."""
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        raise ConfigError(f"packages holds {package!r}", "import names of installed packages")
    folder = Path(spec.origin).resolve()
    folder = folder.parent if folder.name == "__init__.py" else folder
    libraries = folder.with_name(f"{package}.libs")
    return [folder, libraries] if libraries.is_dir() else [folder]


def _extension_modules(folder: Path) -> list[str]:
    # Tk's window-system libraries double the number of mounts, for a program without a display.
    return [str(path) for path in folder.glob("*.so") if not path.name.startswith("_tkinter")]


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
    return sorted(found.items())
