"""Requests to a server: repeated while that is safe and sensible, and answered with a document or an error.

A change carries an Idempotency-Key, so that repeating it after a cut connection carries it out once.
"""

import http.client
import random
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import SplitResult, urlencode, urlsplit

import msgspec

from mulligan.client.problems import to_error
from mulligan.errors import ConfigurationError, MulliganError, ServerError
from mulligan.records.document import Document, to_json
from mulligan.values.clock import Clock, Ids, SystemClock

PREFIX = "/api/v1"
# Delays between attempts after a cut connection, in seconds.
FIRST_DELAY, LONGEST_DELAY = 0.1, 3.0
# Repeated if the answer says when. 409: the twin of the request is still being carried out.
REPEATABLE = (409, 429)
# The answers of a proxy whose server is away, such as while it restarts. They seldom say when to repeat a request.
AWAY = (502, 503, 504)
CUT = (OSError, http.client.HTTPException)
_KEY = re.compile(r"\w+", re.ASCII)


class Answer:
    """One answer, whole."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def retry_after(self) -> float | None:
        given = self.headers.get("Retry-After", "")
        return float(given) if given.isascii() and given.isdigit() else None

    @property
    def is_repeatable(self) -> bool:
        """Whether the same request may be answered otherwise later."""
        return self.status in AWAY or (self.status in REPEATABLE and self.retry_after is not None)

    def error(self, *, refused: type[MulliganError] | None = None, **about: Any) -> MulliganError:
        return to_error(self.status, self._problem(), retry_after=self.retry_after, refused=refused, about=about)

    def _problem(self) -> Mapping[str, Any]:
        """Empty if it is not one, such as the page of a proxy."""
        try:
            found = self.document()
        except ServerError:
            found = None
        return found if isinstance(found, dict) else {}

    def document(self) -> Any:
        try:
            return msgspec.json.decode(self.body) if self.body else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ServerError("the answer of the server is not JSON; is the URL right?", status=self.status) from None


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True, slots=True)
class Connection:
    """Keeps idle connections for later calls. `patience` bounds the time of all attempts of a call."""

    url: str
    key: str | None = field(repr=False)
    timeout: timedelta
    patience: timedelta
    context: ssl.SSLContext | None = None
    clock: Clock = field(default_factory=SystemClock)
    randomness: random.Random = field(default_factory=random.SystemRandom)
    pause: Callable[[float], None] = _pause
    _idle: list[http.client.HTTPConnection] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        place = self._place
        if place.scheme not in ("http", "https") or not place.hostname or place.username is not None or place.query:
            raise ConfigurationError(
                "the URL of a server is like 'https://jobs.example.org' or 'http://127.0.0.1:8000/ops'; "
                "its key is given apart"
            )
        if self.key is not None and not _KEY.fullmatch(self.key):
            raise ConfigurationError("the key of a server is like 'mk_…': letters, digits and underscores only")

    @property
    def _place(self) -> SplitResult:
        return urlsplit(self.url)

    def get(self, path: str, query: Mapping[str, Any] | None = None, **about: Any) -> Any:
        return self._call("GET", path, query=query, about=about)

    def change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        refused: type[MulliganError] | None = None,
        **about: Any,
    ) -> Any:
        """`refused` is the error of a valid request that is not possible now. `about` become fields of errors."""
        ids = Ids(self.clock, self.randomness)
        return self._call(
            method, path, query=query, body=body or {}, request_id=request_id or ids(), refused=refused, about=about
        )

    def lines(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[bytes]:
        """The lines of a long answer, as they come. It is not repeated: an answer that breaks off is an error."""
        with closing(self.connect()) as connection:
            try:
                connection.request("GET", self.target(path, query), headers=self.headers())
                response = connection.getresponse()
                if response.status >= 300:
                    raise Answer(response).error()
                yield from response
            except CUT as error:
                raise self.unreachable(error) from error

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        refused: type[MulliganError] | None = None,
        about: Mapping[str, Any],
    ) -> Any:
        content = None if body is None or method == "DELETE" else msgspec.json.encode(_given(body))
        headers = self.headers(**({} if request_id is None else {"Idempotency-Key": request_id}))
        if content is not None:
            headers["Content-Type"] = "application/json"
        answer = self._repeat(lambda: self._send(method, self.target(path, query), content, headers))
        if answer.status >= 300:
            raise answer.error(refused=refused, **about)
        return answer.document()

    def _repeat(self, send: Callable[[], Answer]) -> Answer:
        waits = Waits(self)
        while True:
            try:
                answer = send()
                if not answer.is_repeatable or not waits.wait(answer.retry_after):
                    return answer
            except CUT as error:
                if not waits.wait():
                    raise self.unreachable(error) from error

    def unreachable(self, error: Exception) -> ServerError:
        return ServerError(f"the server {self.url} cannot be reached: {error or type(error).__name__}")

    def target(self, path: str, query: Mapping[str, Any] | None) -> str:
        pairs = [
            (name, one)
            for name, value in (query or {}).items()
            if value is not None
            for one in (value if isinstance(value, Sequence) and not isinstance(value, str) else [value])
        ]
        asked = urlencode([(name, _word(value)) for name, value in pairs])
        return self._place.path.rstrip("/") + PREFIX + path + (f"?{asked}" if asked else "")

    def headers(self, **more: str) -> dict[str, str]:
        access = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        return {"Accept": "application/json", "User-Agent": "mulligan-client", **access, **more}

    def _send(self, method: str, target: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        # Another thread may take the last one in between.
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.connect()
        try:
            connection.request(method, target, content, dict(headers))
            answer = Answer(connection.getresponse())
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return answer

    def connect(self, timeout: float | None = None) -> http.client.HTTPConnection:
        place = self._place
        assert place.hostname is not None
        seconds = timeout or self.timeout.total_seconds()
        if place.scheme == "http":
            return http.client.HTTPConnection(place.hostname, place.port, timeout=seconds)
        context = self.context or ssl.create_default_context()
        return http.client.HTTPSConnection(place.hostname, place.port, timeout=seconds, context=context)

    def close(self) -> None:
        """Close the idle connections. The next call opens another one."""
        while self._idle:
            self._idle.pop().close()


class Waits:
    """The waits between the attempts of one call: as long as the server asks, otherwise longer and longer."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._delay = connection, FIRST_DELAY
        self._end = connection.clock.monotonic() + connection.patience.total_seconds()

    def wait(self, asked: float | None = None) -> bool:
        """Wait before the next attempt; False, at once, if it would come after the end of the patience."""
        connection = self._connection
        seconds = asked
        if seconds is None:
            seconds = self._delay * (0.5 + connection.randomness.random())
            self._delay = min(self._delay * 2, LONGEST_DELAY)
        if connection.clock.monotonic() + seconds > self._end:
            return False
        connection.pause(seconds)
        return True


def _word(value: Any) -> str:
    found = to_json(value)
    return str(found).lower() if isinstance(found, bool) else str(found)


def _given(body: Mapping[str, Any]) -> Document:
    return {name: to_json(value) for name, value in body.items() if value is not None}
