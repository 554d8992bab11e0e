import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlvr_platform.config.verifiers_code import CodeVerifier
from rlvr_platform.errors import ConfigError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.code import build
from rlvr_platform.verifiers.sandbox import sandbox_status

STATUS = sandbox_status()
pytestmark = pytest.mark.skipif(not STATUS.ok, reason=f"{STATUS.message}: {STATUS.fix}")
CASES = Path(__file__).parents[4] / "shared" / "cases" / "verifier_cases.jsonl"

SQUARE = {"type": "stdin", "tests": [{"in": f"{n}\n", "out": f"{n * n}\n"} for n in (3, 7, -2)]}
ADD = {
    "type": "assert",
    "entry": "add",
    "tests": ["assert add(1, 2) == 3", "assert add(-1, 1) == 0", "assert add(10, 5) == 15"],
}


@pytest.fixture(scope="module")
def verifier():
    return build(CodeVerifier())


def judge(verifier, source, gold):
    return verifier.verify(f"Here it is.\n```python\n{source}\n```\n", json.dumps(gold), {})


def asserts(*tests, **more):
    return {"type": "assert", "tests": list(tests), **more}


@pytest.mark.parametrize(
    ("source", "gold"),
    [
        ("n = int(input())\nprint(n * n)\nexit()", SQUARE),
        ("import sys\nn = int(sys.stdin.read())\nsys.stdout.buffer.write(b'%d' % n**2)", SQUARE),
        ("from __future__ import annotations\nprint(int(open(0).readline()) ** 2)", SQUARE),
        ("import os\nn = int(os.read(0, 99))\nos.write(1, str(n * n).encode())", SQUARE),
        ("import sys\nprint('noise', file=sys.stderr)\nprint(int(input()) ** 2)", SQUARE),
        ("def main():\n    print(int(input()) ** 2)\nif __name__ == '__main__': main()", SQUARE),
        ("def add(a, b): return a + b", ADD),
        (
            "add = lambda a, b: a + b\nif __name__ == '__main__': print(add(*map(int, input())))",
            ADD,
        ),
    ],
)
def test_right_programs_pass(verifier, source, gold):
    finding = judge(verifier, source, gold)
    assert finding.outcome is Outcome.CORRECT, finding.rule
    assert finding.extracted == source + "\n"


THREADS = """
import sys, threading
sys.setrecursionlimit(1 << 20)
threading.stack_size(1 << 27)
def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
def main(): print(depth(50_000) + int(input()))
thread = threading.Thread(target=main)
thread.start()
thread.join()
"""
ASYNCIO = "import asyncio\nasync def main(): print(int(input()) + 50_000)\nasyncio.run(main())"
POOL = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool: print(sum(pool.map(int, [input(), "50000"])))
"""


DEEP = """
import functools, sys
sys.setrecursionlimit(10**6)
@functools.lru_cache(None)
def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
print(depth(50_000) + int(input()))
"""


@pytest.mark.parametrize("source", [THREADS, ASYNCIO, POOL, DEEP])
def test_threads_event_loops_and_deep_recursion_work_in_the_sandbox(verifier, source):
    gold = {"type": "stdin", "tests": [{"in": "1\n", "out": "50001\n"}]}
    assert judge(verifier, source, gold).outcome is Outcome.CORRECT


FORGERIES = {
    "hard exit": "import os\nos._exit(0)",
    "exit": "def add(a, b): exit(0)",
    "exit at load": "raise SystemExit(0)",
    "equal to everything": "from unittest.mock import ANY\ndef add(a, b): return ANY",
    "equal number": """
class Always(int):
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__
def add(a, b): return Always(77)
""",
    "unequal object": """
class Never:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
def add(a, b): return Never()
""",
    "patched assertion": """
import builtins
builtins.AssertionError = type("Never", (Exception,), {"__init__": lambda *a: None})
builtins.isinstance = lambda *a: True
def add(a, b): return 0
""",
    "excepthook": """
import sys, os
sys.excepthook = lambda *a: os._exit(0)
def add(a, b): return 0
""",
    "reads the caller": """
import inspect
def add(a, b):
    try:
        return eval(inspect.stack()[1].code_context[0].split("==")[1])
    except Exception:
        return 0
""",
    "looks through the heap": """
import gc
def add(a, b):
    for thing in gc.get_objects():
        if isinstance(thing, (list, dict)) and "asse" + "rt add(" in str(thing):
            return a + b
    return 0
""",
    "looks through the frames": """
import sys
def add(a, b):
    frame = sys._getframe()
    while frame:
        for value in frame.f_locals.values():
            if "asse" + "rt add(" in repr(value): return a + b
        frame = frame.f_back
    return 0
""",
    "reads its descriptors": """
import os
def add(a, b):
    text = b""
    for fd in range(32):
        try: text += os.pread(fd, 10**6, 0)
        except OSError: pass
    return a + b if b"asse" + b"rt add(" in text else 0
""",
    "writes a verdict": """
import json, os
for fd in range(1, 64):
    try: os.write(fd, json.dumps({"outcome": "passed", "rule": ""}).encode() + b"\\n")
    except OSError: pass
os._exit(0)
""",
    "speaks the protocol": """
import gc, os, socket
from rlvr_platform.verifiers import code_wire
def add(a, b):
    for thing in gc.get_objects():
        if isinstance(thing, socket.socket):
            for _ in range(100):
                code_wire.send(thing, {"outcome": "passed", "value": True, "changed": []})
            os._exit(0)
""",
    "asks the tests to exit": """
import gc, socket
from rlvr_platform.verifiers import code_wire
def add(a, b):
    for thing in gc.get_objects():
        if isinstance(thing, socket.socket):
            for n in range(9):
                call = {"do": "call", "on": n, "args": [], "kwargs": {}}
                code_wire.send(thing, call)
                code_wire.receive(thing)
            code_wire.send(thing, {"raised": ["SystemExit"], "text": "0"})
""",
    "redefines the check": "def check(*a): return True\nrun_tests = check\ndef add(a, b): return 0",
    "takes over the comparison": """
import operator
class Odd:
    def __getattr__(self, name): return lambda *a: True
    __eq__ = __lt__ = __le__ = __contains__ = __bool__ = lambda self, *a: True
    __sub__ = __rsub__ = __abs__ = __call__ = lambda self, *a: self
def add(a, b): return Odd()
""",
    "fails to be a value": "def add(a, b): return [[]] * 10**9",
    "endless": "def add(a, b):\n    while True: yield 3",
    "nothing": "x = 1",
}


@pytest.mark.parametrize("trick", FORGERIES)
def test_no_trick_passes_assert_tests(verifier, trick):
    finding = judge(verifier, FORGERIES[trick], ADD)
    assert finding.outcome is Outcome.WRONG, finding.rule


@pytest.mark.parametrize(
    "test",
    [
        "assert abs(add(1, 2) - 3) < 1e-6",
        "assert add(1, 2) in (3, 4)",
        "assert 3 in add(1, 2)",
        "assert [add(1, 2)] == [3]",
        "assert add(1, 2) <= 3",
        "assert not add(1, 2) != 3",
        "assert {3: 1}[add(1, 2)]",
        "assert add(1, 2).value == 3",
        "assert isinstance(add(1, 2), int)",
        "assert sorted(add(1, 2)) == [1, 2]",
        "assert math.isclose(add(1, 2), 3)",
        "assert str(add(1, 2)) == '3'",
    ],
)
def test_an_object_that_agrees_with_everything_passes_no_comparison(verifier, test):
    finding = judge(verifier, FORGERIES["takes over the comparison"], asserts(test, entry="add"))
    assert finding.outcome is Outcome.WRONG, finding.rule


NODE = """
class Node:
    def __init__(self, value, next=None): self.value, self.next = value, next
"""
LIVE = {
    "numbers of numpy": (
        "import numpy as np\ndef f(a): return [np.int64(a), np.float32(a) / 2, np.bool_(a > 1)]",
        ["assert f(3) == [3, 1.5, True]", "assert f(3)[2] is True"],
    ),
    "keyword arguments": ("def f(a, *, b=1): return a - b", ["assert f(3, b=2) == 1"]),
    "floats": ("def f(): return [float('inf'), 0.1 + 0.2]", ["assert f() == [inf, 0.1 + 0.2]"]),
    "library of the tests": ("def f(): return 2 ** .5", ["assert math.isclose(f(), math.sqrt(2))"]),
    "sets and tuples": (
        "def f(): return {(1, 'a'): {2, 3}, None: frozenset([b'x'])}",
        ["assert f() == {(1, 'a'): {3, 2}, None: frozenset({b'x'})}"],
    ),
    "huge integers": ("def f(n): return n * 7 ** 9000", ["assert f(2) == 2 * 7 ** 9000"]),
    "subclasses by value": (
        "from collections import *\ndef f(s): return Counter(s)",
        ["assert f('aab') == {'a': 2, 'b': 1}", "assert f('ab') == Counter('ba')"],
    ),
    "in-place changes": (
        "def f(xs): xs.sort()\ndef g(d): d.pop('a')",
        ["xs = [3, 1, 2]\nf(xs)\nassert xs == [1, 2, 3]", "d = {'a': 1}; g(d); assert d == {}"],
    ),
    "callbacks": (
        "def f(g, xs): return [g(x) for x in xs]",
        ["assert f(lambda x: x + 1, [1, 2]) == [2, 3]", "assert f(len, ['ab']) == [2]"],
    ),
    "iterators both ways": (
        "def f(xs):\n    for x in xs: yield x * x",
        ["assert list(f(iter([1, 2]))) == [1, 4]", "assert sum(f(x for x in {3: 0}.keys())) == 9"],
    ),
    "exceptions": (
        "def f(x):\n    if x < 0: raise ValueError('negative')\n    return x",
        ["try: f(-1); assert False\nexcept ValueError as e: assert str(e) == 'negative'"],
    ),
    "classes": (
        "class Solution:\n    def two(self, xs): self.seen = xs; return xs[:2]",
        ["s = Solution()\nassert s.two([1, 2, 3]) == [1, 2]\nassert s.seen == [1, 2, 3]"],
    ),
    "objects compared with each other": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int",
        ["assert P(1) == P(1) and P(1) != P(2)", "assert isinstance(P(1), P)"],
    ),
    "check of a candidate": (
        "def f(x): return x",
        ["def check(candidate):\n    assert candidate(1) == 1\n    assert candidate(2) == 2"],
    ),
    "test functions": ("def f(x): return x", ["def test_f():\n    assert f(1) == 1"]),
}


@pytest.mark.parametrize("kind", LIVE)
def test_asserts_work_across_the_two_processes(verifier, kind):
    source, tests = LIVE[kind]
    entry = "f" if "def f" in source else ""
    finding = judge(verifier, source, asserts(*tests, entry=entry))
    assert finding.outcome is Outcome.CORRECT, finding.rule


def test_the_setup_gives_tests_and_solution_the_same_classes(verifier):
    source = "def last(n: Node):\n    while n.next: n = n.next\n    return n"
    gold = asserts("assert last(Node(1, Node(2))).value == 2", entry="last", setup=NODE)
    finding = judge(verifier, source, gold)
    assert finding.outcome is Outcome.CORRECT, finding.rule


def test_check_functions_that_nobody_calls_still_decide(verifier):
    for tests in (["def check(c):\n    assert c(1) == 2"], ["def test_f():\n    assert f(1) == 2"]):
        gold = asserts(*tests, entry="f")
        assert judge(verifier, "def f(x): return x", gold).outcome is Outcome.WRONG


def test_a_builtin_of_the_solution_does_not_replace_that_of_the_tests(verifier):
    source = "def f(xs): return []\nsorted = lambda xs: []\nall = lambda xs: True"
    gold = asserts("assert f([2, 1]) == sorted([2, 1])", entry="f")
    assert judge(verifier, source, gold).outcome is Outcome.WRONG
    gold = asserts("assert sorted([2, 1]) == [1, 2]", entry="sorted")
    assert judge(verifier, source, gold).outcome is Outcome.WRONG


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ("", "not JSON"),
        ("[]", "a JSON list"),
        ("{}", "type None"),
        ('{"inputs": ["1"], "outputs": []}', "one length"),
        ('{"inputs": ["1"], "outputs": ["2"], "fn_name": "f"}', "assert statements"),
        (json.dumps({"type": "stdin", "tests": [{"in": "1", "out": " "}]}), "expects any output"),
        (json.dumps({"type": "stdin", "tests": []}), "no tests"),
        (json.dumps({"type": "assert"}), "no tests"),
        (json.dumps({"type": "stdin", "tests": [{"in": "1"}]}), "test 1"),
        (json.dumps(asserts("assert (", entry="add")), "test 1 is not Python"),
        (json.dumps(asserts("add(1, 2)", entry="add")), "assert nothing"),
        (json.dumps(asserts("assert undefined_name", entry="add")), "never use add"),
        (json.dumps(asserts("def check(c): assert c(1, 2) == 3")), "never call .* check"),
        (json.dumps(asserts("def probe(): assert add(1, 2) == 3", entry="add")), "never call"),
        (json.dumps(asserts("assert add(1, 2) == 3", setup="import os; os._exit(0)")), "before"),
        (json.dumps(asserts("import torch\nassert add(1, 2) == 3")), "imports torch"),
        (json.dumps(asserts("assert add(1, 2) == 3", setup="1 / 0")), "division by zero"),
        (json.dumps(asserts("class C: pass\nassert add(C(), 2) == 3")), "into `setup`"),
    ],
)
def test_tests_that_judge_nothing_are_an_error_whatever_the_solution(verifier, gold, reason):
    for source in ("def add(a, b): return a + b", "print(1)"):
        if "into `setup`" in reason and "print" in source:
            continue  # Without `add` the tests do not get that far.
        with pytest.raises(ValueError, match=reason):
            verifier.verify(f"```python\n{source}\n```", gold, {})


def test_columns_of_inputs_and_outputs_are_cases_too(verifier):
    gold = {"inputs": ["3\n", "4\n"], "outputs": ["9\n", "16\n"]}
    assert judge(verifier, "print(int(input()) ** 2)", gold).outcome is Outcome.CORRECT
    assert judge(verifier, "print(int(input()) * 3)", gold).outcome is Outcome.WRONG


def test_only_packages_that_are_listed_can_be_imported(verifier):
    gold = {"type": "stdin", "tests": [{"in": "", "out": "6"}]}
    source = "import numpy\nprint(numpy.arange(4).sum())"
    assert judge(verifier, source, gold).outcome is Outcome.CORRECT
    bare = build(CodeVerifier(packages=()))
    assert "No module named 'numpy'" in judge(bare, source, gold).rule
    with pytest.raises(ConfigError, match="no_such_package"):
        build(CodeVerifier(packages=("no_such_package",)))


def test_each_case_starts_afresh(verifier):
    source = "f = open('/tmp/state', 'a+')\nf.seek(0)\nprint(len(f.read()))\nf.write('x')"
    gold = {"type": "stdin", "tests": [{"in": "", "out": "0"}] * 3}
    assert judge(verifier, source, gold).outcome is Outcome.CORRECT


def test_a_program_that_fails_after_its_output_is_wrong(verifier):
    finding = judge(verifier, "print(int(input()) ** 2)\nraise ValueError('late')", SQUARE)
    assert finding.outcome is Outcome.WRONG
    assert "ValueError: late" in finding.rule


HANGS = {
    "sleep": "import time\ntime.sleep(10**9)",
    "loop": "while True: pass",
    "big power": "10 ** (10 ** 10)",
    "signals ignored": """
import signal
for s in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(s, signal.SIG_IGN)
while True: pass
""",
    "never ending thread": """
import threading, time
threading.Thread(target=time.sleep, args=(99,)).start()
""",
    "stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
}


@pytest.mark.parametrize("hang", HANGS)
def test_a_hang_is_wrong_and_ends_within_its_limits(hang):
    strict = build(CodeVerifier(cpu_s=1, wall_s=1.2))
    gold = ADD if hang == "loop" else SQUARE
    started = time.monotonic()
    finding = judge(strict, HANGS[hang], gold)
    if hang in ("sleep", "stopped", "never ending thread"):
        assert time.monotonic() - started < 10.0
    assert finding.outcome is Outcome.WRONG
    assert "time limit" in finding.rule or "ended" in finding.rule


def test_missing_programs_are_no_answer(verifier):
    for completion in ("", "```python\n\n```", "<think>```python\nprint(9)\n```", "```cpp\nx\n```"):
        finding = verifier.verify(completion, json.dumps(SQUARE), {})
        assert finding.outcome is Outcome.NO_ANSWER


def test_without_a_sandbox_it_still_judges_when_told_to(verifier):
    unsafe = build(CodeVerifier(unsafe_no_sandbox=True))
    before = set(os.listdir("/tmp"))
    for source, gold in (
        ("print(int(input()) ** 2)", SQUARE),
        ("def add(a, b): return a + b", ADD),
    ):
        assert judge(unsafe, source, gold).outcome is Outcome.CORRECT
        assert judge(unsafe, source.replace("*", "-").replace("+", "-"), gold).outcome is (
            Outcome.WRONG
        )
    assert not [name for name in set(os.listdir("/tmp")) - before if name.startswith("rlvr-")]


@pytest.mark.skipif(not CASES.exists(), reason="no labelled cases beside the repository")
def test_labelled_programs_get_their_label(verifier):
    rows = map(json.loads, CASES.read_text().splitlines())
    rows = [row for row in rows if row["kind"] == "code" or row.get("path") == "code"]
    strict = build(CodeVerifier(cpu_s=1, wall_s=1.5))

    def mistake(row):
        try:
            outcome = strict.verify(row["prediction"], row["gold"], {}).outcome
        except ValueError:
            outcome = Outcome.ERROR
        agrees = (outcome is Outcome.CORRECT) == row["expected"]
        return None if agrees else (row["id"], outcome)

    assert rows
    with ThreadPoolExecutor(3) as threads:
        assert [found for found in threads.map(mistake, rows) if found] == []
