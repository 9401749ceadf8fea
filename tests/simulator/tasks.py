"""Simulated tasks: what an attempt does is written in the job's arguments, one word per attempt; the last repeats."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mulligan.app import App
from mulligan.attempt import attempt
from mulligan.errors import FinalError, RateLimitedError, RetryableError, Snooze
from mulligan.failure.backoff import Exponential, Fixed
from mulligan.failure.policy import RetryPolicy
from simulator.strand import current_strand

if TYPE_CHECKING:
    from simulator.participants import Process

TIMEOUTS = {"brisk": 12.0, "lengthy": 90.0, "plain": 12.0, "hurried": 6.0, "rare": 12.0}
POLICIES = {
    "brisk": RetryPolicy(4, Exponential("1s", cap="20s")),
    "lengthy": RetryPolicy(3, Fixed("5s")),
    "plain": RetryPolicy(3, Exponential("2s")),
    "hurried": RetryPolicy(3, Fixed("4s"), deadline="30s", max_snoozes=2),
    "rare": RetryPolicy(2, Fixed("1s"), max_snoozes=3),
}
ENDINGS = ("work 0.05", "work 0.4", "work 2", "blink")
WORDS = ("fail", "final", "snooze 5", "limited 7", "odd", "text", "unreadable", "stubborn 3", "stubborn 20", "hang")
# If the first attempt is lost: the next still runs when a late result of it comes.
AGAIN = ("work 5", "work 11")
LONG = ("work 8", "work 25", "work 70", "hang")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("an exception that cannot even be shown")


def plan(kind: str, randomness: random.Random, *, killers: float = 0.0) -> list[str]:
    """What the attempts of a new job will do."""
    if randomness.random() < killers:
        return ["kill"] if randomness.random() < 0.5 else ["kill", "work 0.1"]
    if kind == "lengthy":
        return [randomness.choice(LONG), randomness.choice((*ENDINGS, *AGAIN))]
    if randomness.random() < 0.5:
        return [randomness.choice(ENDINGS), randomness.choice(AGAIN)]
    troubles = [randomness.choice(WORDS) for _ in range(randomness.choice((1, 1, 2, 5)))]
    return [*troubles, randomness.choice(ENDINGS)]


def register(app: App, process: "Process") -> None:
    for kind in process.kinds:
        body: Callable[[list[str] | str], Any] = _plain(process) if kind == "plain" else _coroutine(process)
        most = process.allotment.kinds.get(kind)
        app.task(kind, retry=POLICIES[kind], timeout=TIMEOUTS[kind], concurrency=most)(body)


def _coroutine(process: "Process") -> Callable[[list[str] | str], Coroutine[Any, Any, object]]:
    async def body(words: list[str] | str) -> object:
        with _watched(process):
            word, _, number = _word(words).partition(" ")
            if process.world.is_gateway_down(attempt().fields["kind"]):
                raise RetryableError("the gateway is down", code="GW_5XX")
            if word == "kill":
                process.crash()
                await asyncio.Event().wait()
            if word == "stubborn":
                return await _stubborn(float(number))
            if word == "hang":
                await asyncio.Event().wait()
            if word == "work":
                await _work(float(number))
                return number
            return _say(word, number)

    return body


async def _work(seconds: float) -> None:
    for step in range(4):
        await asyncio.sleep(seconds / 4)
        attempt().progress((step + 1) / 4)


async def _stubborn(seconds: float) -> str:
    """Goes on for so long, even if it is asked to stop."""
    end = asyncio.get_running_loop().time() + seconds
    while (left := end - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
    return "at last"


def _plain(process: "Process") -> Callable[[list[str] | str], object]:
    def body(words: list[str] | str) -> object:
        with _watched(process):
            word, _, number = _word(words).partition(" ")
            if word == "kill":
                process.crash()
                _sleep(process, 1)
            if word in ("work", "stubborn", "hang"):
                _sleep(process, float(number or 1000))
                return number
            return _say(word, number)

    return body


def _sleep(process: "Process", seconds: float) -> None:
    strand = current_strand()
    assert strand is not None
    future = process.loop.create_future()
    process.loop.call_later(seconds, _wake, future)
    strand.wait(future)


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _say(word: str, number: str) -> object:
    match word:
        case "fail":
            raise RetryableError("failing on purpose", code="IO_ERROR")
        case "final":
            raise FinalError("failing for good", code="INVALID_INPUT")
        case "snooze":
            raise Snooze(f"{number}s")
        case "limited":
            raise RateLimitedError("not so fast", retry_after=float(number))
        case "odd":
            raise Unspeakable
        case "text":
            return object()
        case "unreadable":
            raise asyncio.CancelledError
    return None


def _word(words: list[str] | str) -> str:
    if isinstance(words, str):
        # It follows a job that was cancelled, whose id this is.
        return ENDINGS[0]
    return words[min(attempt().number, len(words)) - 1]


@contextmanager
def _watched(process: "Process") -> Iterator[None]:
    now = attempt()
    job, number = now.idempotency_key(), now.number
    process.world.oracle.executions.begins(process, job, number)
    try:
        yield
    finally:
        process.world.oracle.executions.ends(process, job, number)
