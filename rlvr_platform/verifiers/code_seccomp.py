"""The system-call filter of sandboxed programs: one process, no sockets, no kernel odds and ends.

Without new processes, limits that the kernel counts by process (memory, CPU time) bound the whole
program, whoever runs it.
"""

from __future__ import annotations

import errno
import platform
import struct

_LOAD_WORD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_OFFSET, _ARCH_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 4, 16
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_REFUSE = 0x00050000
_CLONE_THREAD = 0x00010000
_X32_CALLS = 0x40000000

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_NEWER_CALLS = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "memfd_secret": 447,
}
_CALLS = {
    "x86_64": {
        "fork": 57,
        "vfork": 58,
        "socket": 41,
        "shmget": 29,
        "semget": 64,
        "msgget": 68,
        "mq_open": 240,
        "ptrace": 101,
        "pivot_root": 155,
        "mount": 165,
        "umount2": 166,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "unshare": 272,
        "perf_event_open": 298,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "memfd_create": 319,
        "bpf": 321,
        "userfaultfd": 323,
    },
    "aarch64": {
        "socket": 198,
        "shmget": 194,
        "semget": 190,
        "msgget": 186,
        "mq_open": 180,
        "ptrace": 117,
        "pivot_root": 41,
        "mount": 40,
        "umount2": 39,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "unshare": 97,
        "perf_event_open": 241,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "memfd_create": 279,
        "bpf": 280,
        "userfaultfd": 282,
    },
}


def supported() -> bool:
    """Whether this machine's system calls are known here."""
    return platform.machine() in _ARCHITECTURES


def one_process_filter(machine: str | None = None) -> bytes:
    """The filter as an array of the kernel's `struct sock_filter`.

    Raises KeyError on a machine that is not `supported`.
    """
    machine = machine or platform.machine()
    refused = sorted({*_CALLS[machine].values(), *_NEWER_CALLS.values()})
    code = [
        _instruction(_LOAD_WORD, _ARCH_OFFSET),
        _instruction(_EQUAL, _ARCHITECTURES[machine], then=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD_WORD, _NUMBER_OFFSET),
        _instruction(_AT_LEAST, _X32_CALLS, otherwise=1),
        _instruction(_RETURN, _KILL),
        # Unimplemented, so that the C library falls back to clone, whose flags can be read.
        *_unless(_EQUAL, _CLONE3, errno.ENOSYS),
    ]
    for number in refused:
        code += _unless(_EQUAL, number, errno.EPERM)
    code += [
        _instruction(_EQUAL, _CLONE[machine], otherwise=3),
        _instruction(_LOAD_WORD, _FIRST_ARGUMENT_OFFSET),
        _instruction(_ANY_BIT, _CLONE_THREAD, then=1),
        _instruction(_RETURN, _REFUSE | errno.EPERM),
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(code)


def _unless(test: int, operand: int, error: int) -> list[bytes]:
    return [_instruction(test, operand, otherwise=1), _instruction(_RETURN, _REFUSE | error)]


def _instruction(code: int, operand: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, operand)
