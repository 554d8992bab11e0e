"""How programs are judged."""

from typing import Literal

from rlvr_platform.config.base import Section, setting


class CodeVerifier(Section):
    """Python programs against tests, in a sandbox; each limit holds for one run of a program.

    `pool.deadline_s` bounds all tests of a completion together, `pool.memory_mib` must be at
    least `memory_mib`.
    """

    kind: Literal["code"] = "code"
    cpu_s: int = setting(2, "CPU time of one run; past it the program is wrong. Seconds.", ge=1)
    wall_s: float = setting(
        3.0,
        "Time of one run, sleep included, and waits for a busy processor left out; past it the "
        "program is wrong. Shorter than pool.deadline_s, past which it has no verdict. Seconds.",
        gt=0,
    )
    memory_mib: int = setting(1024, "Address-space limit of a run. MiB.", ge=128)
    file_mib: int = setting(
        16,
        "Largest file a run can write, standard output included, and the size of its work "
        "folder. MiB.",
        ge=1,
    )
    open_files: int = setting(64, "Open files of a run.", ge=16)
    threads: int = setting(
        64, "Threads of a run; the kernel does not hold it against the host's root user.", ge=1
    )
    packages: tuple[str, ...] = setting(
        ("numpy",),
        "Installed packages, by import name, that programs may import besides the standard "
        "library; list what they need in turn. Read-only.",
    )
    float_tolerance: float = setting(
        1e-6,
        "Absolute and relative tolerance for a number of the output whose expected value has a "
        "decimal point or an exponent.",
        ge=0,
    )
    unsafe_no_sandbox: bool = setting(
        False,
        "Run programs as the user of this process, with the limits above and nothing else "
        "between them and its files and network. Only for programs you trust.",
    )
