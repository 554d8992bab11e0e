"""A server as the verifier: one POST a completion, within a deadline, with bounded retries."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from rlvr_platform.config.verifiers_more import EndpointVerifier
from rlvr_platform.errors import ConfigError, VerifierError
from rlvr_platform.secrets import MASK
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.json_text import parse_json

_LONGEST_ANSWER = 1 << 20
"""Bytes of a response that are read."""
_WANTED = '{"correct": true or false} or {"score": a number from 0 to 1}'


class Endpoint:
    """POSTs {"prediction", "gold", "options"}; a failing server is an error, never a wrong answer.

    A refused or broken connection, silence, 429 and 5xx are tried again; other answers are not.
    Redirects are not followed, and no proxy is used.
    """

    def __init__(self, config: EndpointVerifier) -> None:
        """Raises ConfigError when the environment has no token, or one that cannot be sent."""
        self._config = config
        self._headers = {"Content-Type": "application/json", "Connection": "close"}
        self._token = _token(config.token_variable) if config.token_variable else ""
        if self._token:
            self._headers["Authorization"] = f"Bearer {self._token}"

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises VerifierError when no judgement came; silence up to the deadline is a timeout."""
        content = {"prediction": prediction, "gold": gold, "options": dict(options)}
        body = json.dumps(content).encode("ascii")
        end = time.monotonic() + self._config.deadline_s
        problem: Exception = TimeoutError()
        for attempt in range(self._config.attempts):
            self._pause(attempt, end)
            if (remaining := end - time.monotonic()) <= 0:
                break
            try:
                return _judgement(self._ask(body, remaining / (self._config.attempts - attempt)))
            except (OSError, http.client.HTTPException) as error:
                problem = error
        if isinstance(problem, TimeoutError):
            rule = f"the endpoint gave no answer within {self._config.deadline_s:g} s"
            return Finding(Outcome.TIMEOUT, "", rule)
        raise VerifierError(f"the endpoint failed: {type(problem).__name__}: {problem}")

    def _pause(self, attempt: int, end: float) -> None:
        pause = self._config.backoff_s * 2 ** (attempt - 1) if attempt else 0
        time.sleep(max(0.0, min(pause, end - time.monotonic())))

    def _ask(self, body: bytes, seconds: float) -> bytes:
        """The body of a response. Raises OSError or HTTPException when another try may help."""
        end = time.monotonic() + seconds
        with contextlib.closing(self._connection(seconds)) as connection:
            connection.connect()
            with _hang_up(connection.sock, end):
                return self._exchange(connection, body)

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        url = urllib.parse.urlsplit(self._config.url)
        https = url.scheme == "https"
        kind = http.client.HTTPSConnection if https else http.client.HTTPConnection
        return kind(str(url.hostname), url.port, timeout=seconds)

    def _exchange(self, connection: http.client.HTTPConnection, body: bytes) -> bytes:
        url = urllib.parse.urlsplit(self._config.url)
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("POST", target, body, self._headers)
        response = connection.getresponse()
        if response.status == 429 or response.status >= 500:
            raise http.client.HTTPException(f"status {response.status}")
        if response.status != 200:
            raise VerifierError(f"the endpoint answered with status {response.status}", "200")
        answer = response.read(_LONGEST_ANSWER + 1)
        if len(answer) > _LONGEST_ANSWER:
            raise VerifierError(f"the endpoint sent more than {_LONGEST_ANSWER} bytes")
        # What a server says is recorded with the rollout, and some echo the request.
        return answer.replace(self._token.encode(), MASK.encode()) if self._token else answer


@contextlib.contextmanager
def _hang_up(channel: socket.socket, end: float) -> Iterator[None]:
    """Break the connection at `end` and raise TimeoutError.

    A socket's own timeout starts anew with every byte, so a trickle would outlast it.
    """
    late = threading.Event()

    def shut() -> None:
        late.set()
        with contextlib.suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(end - time.monotonic(), shut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError("the endpoint was silent")


def _judgement(answer: bytes) -> Finding:
    """Raises VerifierError unless the answer is a judgement."""
    try:
        fields = parse_json(answer.decode("utf-8"))
    except ValueError as error:
        raise VerifierError(f"the endpoint answered no JSON: {error}", _WANTED) from None
    score = fields.get("score") if isinstance(fields, dict) else None
    correct = fields.get("correct", score == 1) if isinstance(fields, dict) else None
    if not isinstance(correct, bool) or (score is None and "correct" not in fields):
        raise VerifierError(f"the endpoint answered {answer[:120]!r}", _WANTED)
    outcome = Outcome.CORRECT if correct else Outcome.WRONG
    extracted, rule = str(fields.get("extracted", "")), str(fields.get("rule", "endpoint"))
    return Finding(outcome, extracted, rule, score)


def _token(variable: str) -> str:
    """The token without white space around it: files with secrets tend to end with a newline."""
    token = os.environ.get(variable, "").strip()
    if not token:
        raise ConfigError(
            f"the environment variable {variable} is not set", "the endpoint's bearer token"
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(
            f"the environment variable {variable} holds characters that no header can carry",
            "a token of printable ASCII characters without spaces",
        )
    return token
