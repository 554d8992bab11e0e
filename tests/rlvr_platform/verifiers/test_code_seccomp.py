import struct

import pytest

from rlvr_platform.verifiers.code_seccomp import one_process_filter


def allowed(program, arch, number, argument=0):
    """Interpret the filter as the kernel does."""
    data = struct.pack("<IIQQ", number, arch, 0, argument)
    code = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        operation, then, otherwise, operand = code[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif operation == 0x06:
            return operand == 0x7FFF0000
        else:
            test = {
                0x15: accumulator == operand,
                0x35: accumulator >= operand,
                0x45: bool(accumulator & operand),
            }[operation]
            at += then if test else otherwise


@pytest.mark.parametrize(
    ("machine", "arch", "clone", "harmless", "refused"),
    [
        ("x86_64", 0xC000003E, 56, [0, 1, 9, 59, 202, 231, 257], [57, 58, 41, 101, 165, 272, 321]),
        ("aarch64", 0xC00000B7, 220, [63, 64, 222, 221, 98, 94, 56], [198, 117, 40, 97, 280]),
    ],
)
def test_the_filter_lets_threads_through_and_no_process(machine, arch, clone, harmless, refused):
    program = one_process_filter(machine)
    thread = 0x3D0F00
    assert allowed(program, arch, clone, thread)
    assert not allowed(program, arch, clone, 0x11)
    assert not allowed(program, arch, clone, 0x10000011 & ~0x10000)
    assert all(allowed(program, arch, number) for number in harmless)
    assert not any(allowed(program, arch, number) for number in (*refused, 435, 425))
    assert not allowed(program, 0x40000003, harmless[0])
    assert not allowed(program, arch, 0x40000000 | harmless[0])
