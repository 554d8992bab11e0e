import gc
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlvr_platform.config.verifier import PoolConfig, VerifierConfig
from rlvr_platform.config.verifiers_code import CodeVerifier
from rlvr_platform.errors import ConfigError, VerifierError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool
from rlvr_platform.verifiers.sandbox import Limits, Sandbox, sandbox_status

STATUS = sandbox_status()
needs_sandbox = pytest.mark.skipif(not STATUS.ok, reason=f"{STATUS.message}: {STATUS.fix}")
MIB = 1 << 20
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def sandbox():
    return Sandbox(Limits(cpu_s=2, wall_s=4.0, memory_mib=512, file_mib=4))


def programs(mark):
    """Process ids of sandboxed programs whose limit of threads is `mark`."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(b"code_runner.py" in word for word in arguments) and b"%d" % mark in arguments:
            found.append(int(file.parent.name))
    return found


def wait_until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "condition not met in time"
        time.sleep(0.01)


@needs_sandbox
def test_nothing_of_the_host_is_there_but_the_interpreter(sandbox):
    source = """
import os, sys
places = ["/etc", "/home", "/root", "/proc", "/sys", "/usr", "/var", "/work", "/dev/shm", "/opt"]
print([place for place in places if os.path.exists(place)])
print(sorted(os.listdir("/")), os.listdir("."), os.getcwd())
print([p for p in sys.path if os.path.exists(p) and "site-packages" in p and os.listdir(p)])
print(sorted(set(os.environ) - {"PWD"}), os.getuid(), os.uname().nodename)
"""
    places, root, packages, identity = sandbox.run(source).stdout.decode().splitlines()
    assert places == packages == "[]"
    assert root.endswith("[] /tmp")
    assert set(eval(root.partition("]")[0] + "]")) <= {
        *("dev", "platform", "python", "tmp"),
        *("lib", "lib64"),  # The dynamic loader.
    }
    names = ["HOME", "LANG", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"]
    assert identity == f"{names} 65534 sandbox"


@needs_sandbox
def test_only_the_work_folder_is_writable(sandbox):
    source = """
import os
for place in ("/", "/python", "/python/bin", "/platform", "/dev", "/tmp"):
    try:
        open(os.path.join(place, "x"), "w").write("x")
        print(place)
    except OSError:
        pass
"""
    assert sandbox.run(source).stdout == b"/tmp\n"


@needs_sandbox
@pytest.mark.parametrize(
    "attempt",
    [
        "os.fork()",
        "os.posix_spawn('/python/bin/python3', ['x'], {})",
        "subprocess.run(['/python/bin/python3', '-c', ''])",
        "socket.socket(socket.AF_INET)",
        "socket.socket(socket.AF_VSOCK)",
        "socket.socket(socket.AF_NETLINK)",
        "os.memfd_create('x')",
        "os.setuid(0)",
        "os.chroot('/tmp')",
        "syscall('unshare', 0x10000000)",
        "syscall('mount', b'x', b'/tmp', b'tmpfs', 0, None)",
        "syscall('ptrace', 0, 0, 0, 0)",
        "syscall('shmget', 0, 1 << 20, 0o1600)",
        "open('/dev/kmsg')",
        "open('/dev/tty')",
        "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "resource.setrlimit(resource.RLIMIT_CPU, (99, 99))",
    ],
)
def test_ways_out_are_refused(sandbox, attempt):
    source = f"""
import ctypes, os, platform, resource, socket, subprocess
from rlvr_numbers import syscall
try:
    {attempt}
    print("done")
except (OSError, ValueError) as error:
    print("refused")
"""
    prelude = """
import ctypes, platform, sys, types
NUMBERS = {"x86_64": dict(unshare=272, mount=165, ptrace=101, shmget=29),
           "aarch64": dict(unshare=97, mount=40, ptrace=117, shmget=194)}
def syscall(name, *args):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(NUMBERS[platform.machine()][name], *args) < 0:
        raise OSError(ctypes.get_errno(), name)
sys.modules["rlvr_numbers"] = types.SimpleNamespace(syscall=syscall)
"""
    ended = sandbox.run(prelude + source)
    assert ended.stdout == b"refused\n", ended


@needs_sandbox
def test_the_network_of_the_host_is_out_of_reach(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        port = server.getsockname()[1]
        source = f"import socket\nsocket.create_connection(('127.0.0.1', {port}))"
        assert sandbox.run(source).status == 1
        with pytest.raises(TimeoutError):
            server.accept()


@needs_sandbox
def test_it_reaches_no_process_but_itself(sandbox):
    victim = os.fork()
    if victim == 0:
        time.sleep(30)
        os._exit(0)
    try:
        ended = sandbox.run(f"import os\nos.kill({victim}, 9)")
        assert b"ProcessLookupError" in ended.stderr
        sandbox.run("import os\nos.kill(-1, 9)")
        assert os.waitpid(victim, os.WNOHANG) == (0, 0)
    finally:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)


@needs_sandbox
def test_it_inherits_no_descriptor(sandbox):
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    source = """
import os
def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
print([fd for fd in range(64) if is_open(fd)])
"""
    assert sandbox.run(source).stdout == b"[0, 1, 2]\n"
    os.close(reader)
    os.close(writer)


@needs_sandbox
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = bytearray(600 << 20)", "MemoryError"),
        ("x = []\nwhile True: x.append(bytearray(1 << 24))", "MemoryError"),
        ("import zlib; zlib.decompress(zlib.compress(bytes(10**9)))", ""),
        ("while True: print('x' * 100_000)", "File too large"),
        ("import sys\nwhile True: sys.stderr.write('e' * 100_000)", ""),
        ("open('big', 'wb').write(bytes(5 << 20))", "File too large"),
        (
            "for i in range(99): open(str(i), 'wb').write(bytes(1 << 20))",
            "No space left on device",
        ),
        ("files = [open('/dev/null') for _ in range(99)]", "Too many open files"),
        ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
        ("import os\nos.abort()", "SIGABRT"),
        ("while True: pass", "CPU time limit"),
    ],
)
def test_limits_end_the_program_and_bound_what_it_leaves(sandbox, source, reason):
    ended = sandbox.run(source)
    assert ended.status != 0
    assert reason in ended.reason
    assert len(ended.stdout) <= 4 * MIB
    assert len(ended.stderr) <= 4 * MIB


@needs_sandbox
def test_sleep_ends_at_the_wall_limit():
    started = time.monotonic()
    ended = Sandbox(Limits(wall_s=0.5)).run("import time\ntime.sleep(60)")
    assert ended.late
    assert time.monotonic() - started < 1.5


@needs_sandbox
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="no schedstat")
def test_a_crowded_processor_makes_no_program_late():
    box = Sandbox(Limits(cpu_s=3, wall_s=0.6))
    source = "import time\nwhile time.process_time() < 0.5: pass\nprint('done')"
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(affinity)})
    try:
        rivals = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
        started = time.monotonic()
        ended = box.run(source)
        seconds = time.monotonic() - started
    finally:
        os.sched_setaffinity(0, affinity)
        for rival in rivals:
            rival.kill()
            rival.wait()
    assert seconds > 0.6
    assert ended.stdout == b"done\n"


@needs_sandbox
@pytest.mark.parametrize("unsafe", [False, True])
def test_no_process_and_no_descriptor_is_left_behind(unsafe):
    mark = random.randrange(1000, 30_000)
    box = Sandbox(Limits(wall_s=0.5, threads=mark), unsafe=unsafe)
    gc.collect()  # What earlier tests left to the collector must not close meanwhile.
    before = len(os.listdir("/proc/self/fd"))
    for source in ("pass", "import time\ntime.sleep(60)", "import os\nos._exit(3)"):
        box.run(source)
    for delay in range(12):
        run = box.start("program", "import time\ntime.sleep(60)")
        time.sleep(delay / 1000)
        run.kill()
    assert len(os.listdir("/proc/self/fd")) == before
    wait_until(lambda: not programs(mark))


@needs_sandbox
def test_a_sandbox_that_fails_to_start_is_no_verdict(tmp_path):
    box = Sandbox(Limits())
    box._prefix[0] = str(failing_bubblewrap(tmp_path))
    with pytest.raises(VerifierError, match="did not start: bwrap: No permissions"):
        box.run("pass")


@needs_sandbox
def test_a_limit_above_the_inherited_one_is_no_verdict():
    hard = resource.getrlimit(resource.RLIMIT_AS)
    code = "from rlvr_platform.verifiers.sandbox import *\nSandbox(Limits(memory_mib=2048))"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    assert ended.returncode == 1
    assert "ConfigError: the sandbox did not start: the limit AS is 2147483648" in ended.stderr
    assert resource.getrlimit(resource.RLIMIT_AS) == hard


def failing_bubblewrap(folder):
    file = folder / "bwrap"
    file.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    file.chmod(0o755)
    return file


def test_a_machine_without_bubblewrap_is_told_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    ok, message, fix = sandbox_status()
    assert not ok
    assert "bwrap" in message
    assert "apt-get install bubblewrap" in fix
    with pytest.raises(ConfigError, match="unsafe_no_sandbox"):
        Sandbox(Limits())


def test_a_bubblewrap_that_does_not_isolate_is_refused(monkeypatch, tmp_path):
    failing_bubblewrap(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    ok, message, fix = sandbox_status()
    assert not ok
    assert "No permissions" in message
    assert "user namespaces" in fix


@pytest.fixture
def code_pool():
    pools = []

    def create(mark, **settings):
        use = CodeVerifier(threads=mark, wall_s=60.0, cpu_s=60)
        pools.append(VerifierPool(VerifierConfig(use=use, pool=PoolConfig(**settings))))
        return pools[-1]

    yield create
    for pool in pools:
        pool.close()


GOLD = '{"type": "stdin", "tests": [{"in": "4", "out": "8"}]}'
RIGHT = GradeItem("```python\nprint(2 * int(input()))\n```", GOLD)
SLEEPY = GradeItem("```python\nimport time\ntime.sleep(60)\n```", GOLD)


@needs_sandbox
def test_programs_end_with_the_worker_whose_deadline_passed(code_pool):
    mark = random.randrange(1000, 30_000)
    pool = code_pool(mark, deadline_s=1.5)
    verdicts = pool.grade([RIGHT, SLEEPY, RIGHT, RIGHT])
    assert [v.outcome for v in verdicts] == [
        *(Outcome.CORRECT, Outcome.TIMEOUT, Outcome.CORRECT, Outcome.CORRECT)
    ]
    wait_until(lambda: not programs(mark))


@needs_sandbox
def test_a_killed_sandbox_costs_the_item_its_verdict_and_no_other(code_pool):
    mark = random.randrange(1000, 30_000)
    pool = code_pool(mark, deadline_s=20.0, workers=1)
    future = pool.submit([SLEEPY, RIGHT])
    wait_until(lambda: programs(mark))
    for pid in programs(mark):
        os.kill(pid, signal.SIGKILL)
    outcomes = [verdict.outcome for verdict in future.result(timeout=20)]
    assert outcomes[1] is Outcome.CORRECT
    assert outcomes[0] is not Outcome.CORRECT
    wait_until(lambda: not programs(mark))


def test_a_pool_without_a_sandbox_is_a_configuration_error(code_pool, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="install bubblewrap"):
        code_pool(1000)
