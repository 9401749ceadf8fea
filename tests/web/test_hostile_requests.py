"""Requests that are made to exhaust the server: each is refused, costs little memory, and stops no other request."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from test_serve import SHOP, Served, serve
from world import API, World

from mulligan.web.api import GROUPS
from mulligan.web.reading import LARGEST_BODY, LARGEST_READ
from mulligan.web.route import Route, collect

SOAK = bool(os.environ.get("MULLIGAN_SOAK"))
MEBIBYTE = 2**20
# What a body announces or streams, how many headers, how many clients that never end their head, how many ids.
STREAMED, HEADERS, SLOW, IDS = (
    (1_024 * MEBIBYTE, 100_000, 500, 1_000_000) if SOAK else (16 * MEBIBYTE, 20_000, 60, 50_000)
)
# Characters in the argument of a stored job, and how many such jobs there are.
LARGE_JOB, JOBS = 200_000, 300 if SOAK else 60
# May be used by all of it together.
MEMORY = 50 * MEBIBYTE
# No callback may keep the event loop for longer, in milliseconds of CPU time.
LONGEST_CALLBACK = 100
HUGE = 10**9
ROUTES = collect(GROUPS)


def inside(route: Route) -> str:
    """A path of the route, with an id that does not exist."""
    return route.pattern.replace("{", "").replace("}", "").replace(":path", "").removeprefix(API + "/")


def fields(route: Route, kind: str) -> tuple[str, ...]:
    struct = getattr(route, kind)
    return () if struct is None else struct.__struct_fields__


def named(route: Route) -> str:
    return f"{route.method} {route.path}"


# Every route


@pytest.mark.parametrize("route", [each for each in ROUTES if "limit" in fields(each, "query")], ids=named)
def test_no_page_is_huge(sqlite_world: World, route: Route) -> None:
    answer = sqlite_world.admin.get(inside(route), params={"limit": HUGE})
    assert (answer.status_code, answer.json()["path"]) == (400, "?.limit")


@pytest.mark.parametrize("route", [each for each in ROUTES if each.body is not None], ids=named)
def test_no_route_takes_a_body_that_is_too_large(sqlite_world: World, route: Route) -> None:
    body = b'{"reason": "' + b"x" * LARGEST_BODY + b'"}'
    answer = sqlite_world.admin.request(
        route.method, inside(route), content=body, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE")


DURATIONS = {"delay", "deadline", "timeout", "dedupe_for", "duration", "older_than", "expires_in", "within", "after"}


@pytest.mark.parametrize("value", ["999999999999d", 1e300, -1e300], ids=str)
@pytest.mark.parametrize(
    ("route", "field"),
    [(each, name) for each in ROUTES for name in fields(each, "body") if name in DURATIONS],
    ids=lambda value: named(value) if isinstance(value, Route) else str(value),
)
def test_no_duration_is_too_long_for_the_server(sqlite_world: World, route: Route, field: str, value: Any) -> None:
    body = {"kind": "convert", "arguments": {"path": "a"}} if "kind" in fields(route, "body") else {}
    answer = sqlite_world.admin.request(route.method, inside(route), json={**body, field: value})
    assert 400 <= answer.status_code < 500, answer.text


# The event loop

LARGE = {
    "brackets": b'{"kind": "convert", "arguments": {"a": [' + b",".join([b"[]"] * 300_000) + b"]}}",
    "objects": b'{"kind": "convert", "arguments": {"a": [' + b",".join([b'{"a":1}'] * 120_000) + b"]}}",
    "names": b'{"kind": "convert", "arguments": {' + b",".join(b'"k%d":0' % n for n in range(80_000)) + b"}}",
}


@pytest.mark.parametrize("shape", LARGE)
def test_other_requests_are_answered_while_a_large_body_is_decoded(sqlite_world: World, shape: str) -> None:
    """The loop turns many times meanwhile. Decoding on it would be one turn."""

    async def ask() -> int:
        asking = asyncio.create_task(post(sqlite_world, LARGE[shape]))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        assert asking.result() == 400
        return turns

    assert asyncio.run(ask()) > 10


async def post(world: World, body: bytes) -> int:
    """Send a request as a server does, without one. Return the status of the answer."""
    headers = {"authorization": "Bearer acme", "content-type": "application/json"}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": f"{API}/jobs",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await world.asgi(scope, receive, send)
    return int(sent[0]["status"])


# A real server


class Victim:
    def __init__(self, served: Served, lag: Path) -> None:
        self.served, self.lag = served, lag
        self._before = self._memory()

    def _memory(self) -> int:
        status = Path(f"/proc/{self.served.process.pid}/smaps_rollup").read_text()
        wanted = ("Private_Dirty", "Swap:")
        return sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(wanted))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.served.port), timeout=60)

    def head(self, route: str) -> bytes:
        """The head of a request to the route, but for its last lines."""
        fields = {"Host": "x", **self.served.key, "Content-Type": "application/json"}
        lines = [f"POST {API}{route} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return "".join(f"{line}\r\n" for line in lines).encode()

    def check(self) -> None:
        """It answers, and has not grown much."""
        assert json.loads(self.served.get("/healthz")) == {"status": "ok"}
        grown = self._memory() - self._before
        assert grown < MEMORY, f"{grown / MEBIBYTE:.0f} MiB more"
        longest = int(self.lag.read_text() or 0)
        print(f"{grown / MEBIBYTE:.1f} MiB more, longest callback {longest} ms of CPU time")
        assert not SOAK or longest < LONGEST_CALLBACK


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder = tmp_path_factory.mktemp("victim")
    lag = folder / "lag"
    lag.write_text("")
    jobs = f"app.enqueue_many([convert.options(delay='1h').bind('word ' * ({LARGE_JOB} // 5)) for _ in range({JOBS})])"
    shop = f"from pathlib import Path\nfrom lag import watch\nwatch(Path({str(lag)!r}))\n{SHOP}\n{jobs}\n"
    with serve(folder, shop=shop) as served:
        served.get("/api/v1/jobs")
        yield Victim(served, lag)


@pytest.mark.parametrize("route", ["/jobs", "/jobs/bulk/cancel", "/admin/jobs/stuck", "/keys"])
def test_a_body_without_end_is_refused_and_not_kept(victim: Victim, route: str) -> None:
    piece = b"%x\r\n%s\r\n" % (65_536, b" " * 65_536)
    with victim.connect() as connection:
        connection.sendall(victim.head(route) + b"Transfer-Encoding: chunked\r\n\r\n")
        # The server may close the connection at any time.
        with suppress(ConnectionError):
            # The server answers once it has dropped more than it reads of any body.
            for _ in range((STREAMED if route == "/jobs" else 2 * LARGEST_READ) // 65_536):
                connection.sendall(piece)
        with suppress(ConnectionError):
            answer = connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 413 "), answer[:200]
    victim.check()


def test_many_headers_are_refused_before_they_are_kept(victim: Victim) -> None:
    with victim.connect() as connection:
        with suppress(ConnectionError):
            connection.sendall(victim.head("/jobs") + b"x: y\r\n" * HEADERS + b"\r\n")
        with suppress(ConnectionError):
            assert connection.recv(65_536).startswith(b"HTTP/1.1 431 ")
    victim.check()


def test_clients_that_never_end_their_head_stop_no_other(victim: Victim) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(victim.connect()) for _ in range(SLOW)]
        for connection in slow:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 1_000)
        victim.check()
        if SOAK:
            # After ten seconds they are answered and closed.
            answers = [connection.recv(1_000) for connection in slow]
            assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
            victim.check()


def test_a_bulk_of_many_ids_is_refused(victim: Victim) -> None:
    body = json.dumps({"ids": [f"{number:036d}" for number in range(IDS)]}).encode()
    with victim.connect() as connection:
        with suppress(ConnectionError):
            connection.sendall(victim.head("/jobs/bulk/cancel") + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        with suppress(ConnectionError):
            assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")
    victim.check()


def test_pages_of_large_jobs_at_once_stop_no_other(victim: Victim) -> None:
    """Each page ends before it is large, and leads to the next."""

    def ask(path: str) -> int:
        page = json.loads(victim.served.get(f"{API}/jobs?{path}&limit=1000"))
        assert page["cursor"] == page["jobs"][-1]["id"]
        return len(page["jobs"])

    with ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(ask, "kind=convert") for _ in range(16 if SOAK else 4)]
        while not all(each.done() for each in asked):
            victim.check()
    assert {each.result() for each in asked} == {2**20 // (LARGE_JOB + len('{"path":"""}'))}
    victim.check()


def test_large_bodies_at_once_stop_no_other(victim: Victim) -> None:
    def send() -> None:
        body = LARGE["brackets"]
        with victim.connect() as connection:
            connection.sendall(victim.head("/jobs") + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            assert connection.recv(65_536).startswith(b"HTTP/1.1 4")

    senders = [threading.Thread(target=send) for _ in range(8 if SOAK else 2)]
    for sender in senders:
        sender.start()
    victim.check()
    for sender in senders:
        sender.join()
    victim.check()
