import contextlib
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rlvr_platform.config.verifiers_more import EndpointVerifier
from rlvr_platform.errors import ConfigError, VerifierError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.endpoint import Endpoint


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, replies):
        """`replies`: one function of the handler a request; the last one stays."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies, self.requests, self.times = replies, [], []

    def handle_error(self, request, client_address):
        pass


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers), json.loads(content)))
        self.server.times.append(time.monotonic())
        replies = self.server.replies
        (replies.pop(0) if len(replies) > 1 else replies[0])(self)

    def log_message(self, *_):
        pass


def reply(body, status=200):
    def send(handler):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return send


def hang(handler):
    time.sleep(30)


def hang_up(handler):
    handler.connection.shutdown(socket.SHUT_RDWR)


def trickle(handler):
    """A byte now and then: never silent for long, never done. Its first line is a judgement."""
    handler.wfile.write(b'HTTP/1.0 200 OK\r\n\r\n{"correct": true}')
    with contextlib.suppress(OSError):
        for _ in range(300):
            handler.wfile.write(b" ")
            time.sleep(0.05)


def trickle_headers(handler):
    with contextlib.suppress(OSError):
        for letter in b"HTTP/1.0 200 OK\r\nX: " + b"x" * 300:
            handler.wfile.write(bytes([letter]))
            time.sleep(0.05)


@pytest.fixture
def serve():
    servers = []

    def start(*replies):
        servers.append(_Server(list(replies)))
        threading.Thread(target=servers[-1].serve_forever, args=(0.02,), daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def endpoint(server, path="/judge?x=1", **settings):
    url = f"http://127.0.0.1:{server.server_port}{path}"
    return Endpoint(EndpointVerifier(url=url, **{"deadline_s": 1.0, "backoff_s": 0.01, **settings}))


@pytest.mark.parametrize(
    ("answer", "outcome", "score"),
    [
        ({"correct": True}, Outcome.CORRECT, None),
        ({"correct": False}, Outcome.WRONG, None),
        ({"score": 1}, Outcome.CORRECT, 1),
        ({"score": 0.25}, Outcome.WRONG, 0.25),
        ({"correct": True, "score": 0.9}, Outcome.CORRECT, 0.9),
    ],
)
def test_the_judgement_of_the_server_is_the_finding(serve, answer, outcome, score):
    server = serve(reply({**answer, "extracted": "42", "rule": "said so"}))
    found = endpoint(server).verify("p\ud800", "g", {"o": [1]})
    assert (found.outcome, found.score) == (outcome, score)
    assert (found.extracted, found.rule) == ("42", "said so")
    path, headers, content = server.requests[0]
    assert (path, headers["Content-Type"]) == ("/judge?x=1", "application/json")
    assert content == {"prediction": "p\ud800", "gold": "g", "options": {"o": [1]}}


@pytest.mark.parametrize("failure", [reply({}, 500), reply({}, 503), reply({}, 429), hang_up])
def test_a_passing_failure_is_tried_again(serve, failure):
    server = serve(failure, failure, reply({"correct": True}))
    assert endpoint(server).verify("p", "g", {}).outcome is Outcome.CORRECT
    assert len(server.requests) == 3


@pytest.mark.parametrize("failure", [reply({"correct": True}, 500), hang_up])
def test_a_lasting_failure_is_an_error_after_the_attempts(serve, failure):
    server = serve(failure)
    with pytest.raises(VerifierError, match="the endpoint failed"):
        endpoint(server, attempts=4).verify("p", "g", {})
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage",
        b'{"correct": true',
        b"\xff\xfe",
        b'{"score": NaN}',
        [],
        {},
        True,
        {"correct": "yes"},
        {"correct": None},
        {"score": None},
        {"score": "1"},
        {"score": 1.5},
        {"score": -1},
        {"score": True},
        {"correct": True, "score": 2},
        b'{"correct": true, "correct": false}',
    ],
)
def test_garbage_is_an_error_at_once(serve, answer):
    server = serve(reply(answer))
    with pytest.raises((VerifierError, ValueError), match=r"endpoint|score"):
        endpoint(server).verify("p", "g", {})
    assert len(server.requests) == 1


def test_an_endless_answer_is_an_error(serve):
    server = serve(reply({"correct": True, "more": "x" * (2 << 20)}))
    with pytest.raises(VerifierError, match="more than 1048576 bytes"):
        endpoint(server).verify("p", "g", {})


@pytest.mark.parametrize("status", [201, 301, 302, 400, 401, 404])
def test_any_other_status_is_an_error_at_once(serve, status):
    server = serve(reply({"correct": True}, status))
    with pytest.raises(VerifierError, match=f"status {status}"):
        endpoint(server).verify("p", "g", {})
    assert len(server.requests) == 1


@pytest.mark.parametrize("silence", [hang, trickle, trickle_headers])
def test_silence_and_trickles_are_a_timeout_in_time(serve, silence):
    server = serve(silence)
    started = time.monotonic()
    found = endpoint(server, deadline_s=0.6).verify("p", "g", {})
    assert (found.outcome, found.score) == (Outcome.TIMEOUT, None)
    assert 0.5 < time.monotonic() - started < 5
    assert len(server.requests) >= 2


def test_no_thread_outlives_its_request(serve):
    verifier = endpoint(serve(reply({"correct": True})), deadline_s=30)
    verifier.verify("p", "g", {})
    timers = [t for t in threading.enumerate() if isinstance(t, threading.Timer)]
    for timer in timers:
        timer.join(1)
    assert not any(timer.is_alive() for timer in timers)


def test_one_hang_is_survived(serve):
    server = serve(hang, reply({"correct": True}))
    assert endpoint(server).verify("p", "g", {}).outcome is Outcome.CORRECT


def test_pauses_double(serve):
    server = serve(reply({}, 500))
    with pytest.raises(VerifierError):
        endpoint(server, attempts=4, backoff_s=0.1, deadline_s=30).verify("p", "g", {})
    gaps = [b - a for a, b in zip(server.times, server.times[1:], strict=False)]
    assert [gap > pause for gap, pause in zip(gaps, (0.09, 0.19, 0.39), strict=True)] == [True] * 3


def test_retries_end_with_the_deadline(serve):
    server = serve(reply({}, 500))
    started = time.monotonic()
    # On a busy machine the last attempt may be cut short, which is a timeout.
    with contextlib.suppress(VerifierError):
        found = endpoint(server, attempts=6, backoff_s=0.4, deadline_s=1.0).verify("p", "g", {})
        assert found.outcome is Outcome.TIMEOUT
    assert time.monotonic() - started < 5
    assert len(server.requests) <= 3


def test_nobody_at_the_address_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    verifier = Endpoint(EndpointVerifier(url=f"http://127.0.0.1:{port}", backoff_s=0.01))
    with pytest.raises(VerifierError, match="ConnectionRefusedError"):
        verifier.verify("p", "g", {})


def test_the_token_of_the_environment_is_sent_and_must_be_there(serve, monkeypatch):
    server = serve(reply({"correct": True}))
    with pytest.raises(ConfigError, match="JUDGE_TOKEN"):
        endpoint(server, token_variable="JUDGE_TOKEN")
    monkeypatch.setenv("JUDGE_TOKEN", "abc")
    endpoint(server, token_variable="JUDGE_TOKEN").verify("p", "g", {})
    assert server.requests[0][1]["Authorization"] == "Bearer abc"


def test_white_space_around_the_token_is_not_sent(serve, monkeypatch):
    server = serve(reply({"correct": True}))
    monkeypatch.setenv("JUDGE_TOKEN", " abc\n")
    endpoint(server, token_variable="JUDGE_TOKEN").verify("p", "g", {})
    assert server.requests[0][1]["Authorization"] == "Bearer abc"


@pytest.mark.parametrize("token", ["two words", "two\nlines", "tok\u00e9n", "a\x1bb"])
def test_a_token_that_cannot_be_sent_is_refused_without_repeating_it(serve, monkeypatch, token):
    monkeypatch.setenv("JUDGE_TOKEN", token)
    with pytest.raises(ConfigError, match="JUDGE_TOKEN") as error:
        endpoint(serve(reply({"correct": True})), token_variable="JUDGE_TOKEN")
    assert token not in str(error.value)


def test_a_server_that_echoes_the_token_gets_it_into_no_finding_and_no_error(serve, monkeypatch):
    monkeypatch.setenv("JUDGE_TOKEN", "planted")
    echo = {"correct": True, "extracted": "Bearer planted", "rule": "planted"}
    verifier = endpoint(serve(reply(echo), reply(b"planted")), token_variable="JUDGE_TOKEN")
    found = verifier.verify("p", "g", {})
    assert (found.extracted, found.rule) == ("Bearer ***", "***")
    with pytest.raises(VerifierError) as error:
        verifier.verify("p", "g", {})
    assert "planted" not in str(error.value)


@pytest.mark.parametrize("variable", ["sk-secret", "judge_token", "A B", "1A"])
def test_only_names_in_capitals_name_the_variable(variable):
    with pytest.raises(ValueError, match="token_variable"):
        EndpointVerifier(url="http://host", token_variable=variable)


@pytest.mark.parametrize("url", ["", "ftp://host/", "http://", "file:///etc/passwd", "host:80"])
def test_only_http_addresses_are_configurations(url):
    with pytest.raises(ValueError, match="url"):
        EndpointVerifier(url=url)
