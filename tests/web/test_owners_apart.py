"""Owners see nothing of each other, of operators, and of machines: every GET of the route table, and the stream."""

import asyncio
import logging
import os
import re
import time
from collections.abc import Iterator
from statistics import mean
from typing import Any

import httpx
import pytest
from access_client import PREFIX
from postgres_server import PostgresServer
from twins import IDS, PATIENCE, ROUTES, Asked, Twins, ask, guesses, reads, to_missing

from mulligan.store.postgres import session
from mulligan.store.postgres.lean import LeanStatement
from mulligan.store.session import Statements

# Read before the tests clear the environment.
IS_SOAK = bool(os.environ.get("MULLIGAN_SOAK"))
# Statements about the caller's own key, which is remembered for a while, with the time at which it is read.
OF_THE_KEY = {"access_key", "access_keys_used", "now"}
# How often is asked whether the log is on disk depends on the disk.
OF_THE_DISK = {"events_flushed", "events_flush"}
# Times, how far statistics are behind, and ids and secrets of what the request itself makes.
CHANGING = re.compile(
    r'\d{4}-\d\d-\d\dT[\d:.+]+|"lag":[\d.e-]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|whsec_[\w+/=]+'
)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def twins(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('twins')}/jobs.db"
    else:
        server: PostgresServer = request.getfixturevalue("server")
        url = server.fresh_database("twins")
    with Twins(url).filled() as found:
        yield found


def hidden(twins: Twins) -> list[str]:
    """What the first owner may not see anywhere."""
    return [twins.theirs.marker, twins.operator, twins.reason, twins.command, *twins.workers]


def without_echo(text: str, asked: str) -> str:
    """An answer may repeat what was asked for."""
    for given in httpx.URL(asked).params.values():
        text = text.replace(given, "")
    return text.replace(httpx.URL(asked).path.rpartition("/owners/")[2].removesuffix("/spending"), "")


def around(text: str, secret: str) -> str:
    place = text.find(secret)
    return text[max(0, place - 80) : place + 80]


def test_no_read_shows_anything_of_another_owner_or_of_operators(
    twins: Twins, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked = list(reads(ROUTES, twins.sides))

    async def crawl(client: httpx.AsyncClient) -> list[tuple[Asked, httpx.Response]]:
        found = [(each, await ask(client, each, twins.mine.key)) for each in asked]
        # The next pages, one item each.
        for each, answer in found:
            if answer.status_code == 200 and "?limit=1&" in f"{each.path}&" and '"cursor":"' in answer.text:
                further = Asked(each.route, f"{each.path.split('&')[0]}&cursor={answer.json()['cursor']}")
                found.append((further, await ask(client, further, twins.mine.key)))
        return found

    caplog.clear()
    answers = twins.web.run(crawl)
    seen = "".join(answer.text for _, answer in answers)
    assert seen.count(twins.mine.marker) > 100, "the crawl must reach what is there"
    leaks = [
        (str(each), secret, around(answer.text, secret))
        for each, answer in answers
        for secret in hidden(twins)
        if secret in without_echo(answer.text, each.path) + str(answer.headers)
    ]
    assert leaks == [], sorted({(each.split("?")[0], said) for each, _, said in leaks})
    assert [each for each, answer in answers if answer.status_code >= 500] == []
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name == "mulligan.web")
    assert [secret for secret in hidden(twins) if secret in logged] == []


def test_an_administrator_sees_what_owners_do_not(twins: Twins) -> None:
    """The crawl could find it."""

    async def crawl(client: httpx.AsyncClient) -> str:
        return "".join([(await ask(client, each, twins.admin)).text for each in reads(ROUTES, twins.sides[:1])])

    seen = twins.web.run(crawl)
    assert [secret for secret in hidden(twins) if secret not in seen] == []


def test_a_stream_shows_nothing_of_another_owner_or_of_operators(twins: Twins) -> None:
    """What is in the log, and what comes while the stream is open: the events of the other owner come first."""

    def work() -> str:
        for side in (twins.theirs, twins.mine):
            job = twins.app.tasks["works"].options(owner=side.owner, delay="1h").enqueue(side.marker)
            twins.app.cancel(job.id, actor=twins.operator, reason=twins.reason)
        return job.id

    seen = asyncio.run(follow(twins, work))
    assert twins.mine.ids["job_id"] in seen
    assert [secret for secret in hidden(twins) if secret in seen] == []


async def follow(twins: Twins, work: Any) -> str:
    """All of a stream, until the events of the job that `work` makes while it is open."""
    headers = [(b"authorization", f"Bearer {twins.mine.key}".encode())]
    path = f"{PREFIX}/events/stream"
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"after=0", "headers": headers}
    body, came, gone = bytearray(), asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, str]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        body.extend(message.get("body", b""))
        came.set()

    async def wait_for(text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while text.encode() not in body:
                came.clear()
                await came.wait()

    stream = asyncio.ensure_future(twins.web.application(scope, receive, send))
    await wait_for(twins.mine.ids["redrive_id"])
    last = await asyncio.to_thread(work)
    await wait_for(f'"type":"job.cancelled","job":"{last}"')
    gone.set()
    await stream
    return body.decode()


# Ids of another owner


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all statements that are executed."""
    names: list[str] = []
    get, filtered, lean = dict.__getitem__, Statements.filtered, session.lean_statement

    def look_up(self: Statements, name: str) -> str:
        names.append(name)
        return self.__missing__(name) if name not in self else get(self, name)

    def look_up_filtered(self: Statements, name: str, *given: Any, **words: str) -> str:
        names.append(name)
        return filtered(self, name, *given, **words)

    monkeypatch.setattr(Statements, "__getitem__", look_up, raising=False)

    def look_up_lean(name: str) -> LeanStatement:
        names.append(name)
        return lean(name)

    monkeypatch.setattr(Statements, "filtered", look_up_filtered)
    monkeypatch.setattr(session, "lean_statement", look_up_lean)
    return names


def test_an_id_of_another_owner_is_answered_as_one_that_is_missing(twins: Twins, statements: list[str]) -> None:
    """In the path, the query or the body: the same status, body and headers, and the same statements."""

    twins.finish()

    async def shown(client: httpx.AsyncClient, asked: Any, value: str) -> Any:
        statements.clear()
        async with asyncio.timeout(PATIENCE):
            answer = await ask(client, asked.with_id(value), twins.mine.key, **asked.body(value))
        executed = [name for name in statements if name not in OF_THE_KEY | OF_THE_DISK]
        text = CHANGING.sub("…", answer.text.replace(value, "…"))
        # The length follows from the text, and changes with what changes there.
        headers = sorted(item for item in answer.headers.items() if item[0] != "content-length")
        return answer.status_code, text, headers, executed

    async def compare(client: httpx.AsyncClient) -> list[Any]:
        found = []
        for guess in guesses(ROUTES, twins.theirs):
            foreign = await shown(client, guess, guess.value)
            missing = await shown(client, guess, to_missing(guess.value))
            found.append((str(guess), foreign, missing))
        return found

    compared = twins.web.run(compare)
    differing = [each for each in compared if each[1] != each[2]]
    assert differing == [], differing
    assert [each[:2] for each in compared if each[1][0] >= 500 or not each[1][3]] == []


PAIRS = 1_000
# Of the differences at each end: those of moments in which the machine did something else.
LEFT_OUT = PAIRS // 20
READS = [
    f"GET {route.path}: {name}"
    for route in ROUTES
    for name in route.parameters
    if route.method == "GET" and not route.is_admin and name in IDS
]


@pytest.mark.skipif(not IS_SOAK, reason="it measures time: make soak PARTS=api")
@pytest.mark.parametrize("name", READS)
def test_an_id_of_another_owner_is_answered_as_fast_as_one_that_is_missing(twins: Twins, name: str) -> None:
    """One after the other, each first in turn, so that what else the machine does concerns both."""
    (guess,) = (each for each in guesses(ROUTES, twins.theirs) if str(each) == name)

    async def time_one(client: httpx.AsyncClient, value: str) -> float:
        began = time.perf_counter()
        answer = await ask(client, guess.with_id(value), twins.mine.key)
        assert answer.status_code in (200, 404), answer.text
        return time.perf_counter() - began

    async def measure(client: httpx.AsyncClient) -> list[float]:
        """By how many seconds the answer to the foreign id took longer."""
        signs = {guess.value: 1, to_missing(guess.value): -1}
        pairs = [list(signs.items())[:: 1 if number % 2 else -1] for number in range(PAIRS)]
        return [sum([sign * await time_one(client, value) for value, sign in pair]) for pair in pairs]

    found = mean(sorted(twins.web.run(measure))[LEFT_OUT:-LEFT_OUT])
    print(f"{name}: {found * 1e6:+.0f} µs")
    assert abs(found) < 0.001
