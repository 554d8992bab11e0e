import json
import os
import socket
import subprocess
import sys

import pytest

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.verifiers.forkserver import check_memory, load_factory


def test_a_memory_limit_below_what_is_loaded_is_refused_with_the_least_that_works():
    with pytest.raises(ValueError, match="at least") as refused:
        check_memory(1)
    check_memory(int(str(refused.value).split()[-1]) + 16)


def test_a_factory_is_found_by_module_and_name():
    assert load_factory("json:dumps") is json.dumps


def talk(conversation):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(20)
    config = VerifierConfig(use=ExactVerifier()).model_dump_json()
    module, factory = "rlvr_platform.verifiers", "registry:build_verifier"
    command = [sys.executable, "-m", f"{module}.forkserver", str(theirs.fileno())]
    with subprocess.Popen(
        [*command, str(os.getpid()), config, f"{module}.{factory}"],
        pass_fds=[theirs.fileno()],
        env={"PYTHONPATH": ":".join(sys.path)},
    ) as process:
        theirs.close()
        try:
            assert json.loads(ours.recv(4096)) == {"ready": True}
            conversation(ours)
        finally:
            ours.close()
        assert process.wait(timeout=10) == 0


def test_workers_are_forked_killed_and_reported():
    def conversation(control):
        ours, theirs = socket.socketpair()
        socket.send_fds(control, [b"fork"], [theirs.fileno()])
        theirs.close()
        pid = json.loads(control.recv(4096))["forked"]
        assert ours.recv(2) == b"\n"  # It is ready.
        control.send(b"kill %d" % os.getpid())  # Not one of its workers: ignored.
        control.send(b"kill %d" % pid)
        exited = json.loads(control.recv(4096))
        assert exited == {"exited": pid, "reason": "the verifier process died of SIGKILL"}
        assert ours.recv(1) == b""
        ours.close()

    talk(conversation)


def test_a_worker_whose_channel_closes_ends_by_itself():
    def conversation(control):
        ours, theirs = socket.socketpair()
        socket.send_fds(control, [b"fork"], [theirs.fileno()])
        theirs.close()
        pid = json.loads(control.recv(4096))["forked"]
        assert ours.recv(2) == b"\n"
        ours.close()
        exited = json.loads(control.recv(4096))
        assert exited == {"exited": pid, "reason": "the verifier process exited with status 0"}

    talk(conversation)
