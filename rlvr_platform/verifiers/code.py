"""Programs: Python in the completion, run in a sandbox against the tests of the gold answer.

Whatever a program does to its own process, the verdict is reached in another one: outputs are
compared here, assert statements run in a second sandbox (see code_harness.py).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlvr_platform.config.verifiers_code import CodeVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.code_compare import same_output
from rlvr_platform.verifiers.code_extract import find_program
from rlvr_platform.verifiers.code_run import Limits
from rlvr_platform.verifiers.code_tests import AssertTests, StdinTests, read_tests
from rlvr_platform.verifiers.sandbox import Sandbox

_MIB = 1 << 20


def build(config: CodeVerifier) -> CodeTests:
    """Raises ConfigError when there is no sandbox and the configuration does not waive it."""
    limits = Limits(
        config.cpu_s,
        config.wall_s,
        config.memory_mib,
        config.file_mib,
        config.open_files,
        config.threads,
    )
    return CodeTests(
        Sandbox(limits, config.packages, config.unsafe_no_sandbox), config.float_tolerance
    )


@dataclass(frozen=True, slots=True)
class CodeTests:
    """The program passes every test; the first that fails decides."""

    sandbox: Sandbox
    float_tolerance: float

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises ValueError when the gold answer holds no tests, or tests that cannot judge any
        program; VerifierError when the sandbox fails."""
        tests = read_tests(gold)
        entry = tests.entry if isinstance(tests, AssertTests) else ""
        program = find_program(prediction, entry)
        if program is None:
            return Finding(Outcome.NO_ANSWER, "", "no Python program in the completion")
        if isinstance(tests, StdinTests):
            failure = self._run_cases(program.source, tests)
        else:
            failure = self._run_asserts(program.source, tests)
        outcome = Outcome.WRONG if failure else Outcome.CORRECT
        return Finding(outcome, program.source, f"{program.rule}: {failure or 'all tests passed'}")

    def _run_cases(self, source: str, tests: StdinTests) -> str:
        """What failed, or nothing."""
        for number, (given, expected) in enumerate(tests.cases, start=1):
            if len(expected.encode()) >= self.sandbox.limits.file_mib * _MIB:
                raise ValueError(f"test {number} expects more output than file_mib allows")
            ended = self.sandbox.run(source, given.encode())
            if ended.late or ended.status:
                return f"test {number}: {ended.reason}"
            output = ended.stdout.decode(errors="replace")
            if not same_output(output, expected, self.float_tolerance):
                return f"test {number}: wrong output"
        return ""

    def _run_asserts(self, source: str, tests: AssertTests) -> str:
        """What failed, or nothing."""
        loaded = json.dumps({"setup": tests.setup, "solution": source})
        judged = json.dumps({"tests": tests.statements, "entry": tests.entry})
        ours, theirs = socket.socketpair()
        with ours, theirs:
            solution = self.sandbox.start("solution", loaded, channel=theirs)
            try:
                theirs.close()
                harness = self.sandbox.start("harness", judged, channel=ours)
                ours.close()
                ended = harness.wait(solution)
            finally:
                solution.kill()
        if not ended.stdout:
            return ended.reason
        verdict = json.loads(ended.stdout)
        if verdict["outcome"] == "broken":
            raise ValueError(f"the tests cannot judge any program: {verdict['rule']}")
        return "" if verdict["outcome"] == "passed" else verdict["rule"]
