"""Large requests: some at a time, in their order, so that those of many clients take little more memory than one."""

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable

from test_hostile_requests import post
from world import API, World

from live import SOON
from mulligan.web.large import MOST_BYTES, LargeRequests

HALF = MOST_BYTES // 2
# Each bracket is three bytes here, and some 80 when it is decoded.
BRACKETS = b'{"kind": "convert", "arguments": {"a": [' + b",".join([b"[]"] * 200_000) + b"]}}"


def run(case: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SOON):
            await case()

    asyncio.run(bounded())


class Inside:
    """Who is inside, by name."""

    def __init__(self) -> None:
        self.large = LargeRequests()
        self.names: list[str] = []
        self._leaving: dict[str, asyncio.Event] = {}

    async def enter(self, name: str, size: int) -> "asyncio.Task[None]":
        self._leaving[name] = asyncio.Event()
        task = asyncio.ensure_future(self._stay(name, size))
        await self.turn()
        return task

    async def _stay(self, name: str, size: int) -> None:
        async with self.large.admit(size):
            self.names.append(name)
            await self._leaving[name].wait()
            self.names.remove(name)

    async def leave(self, name: str) -> None:
        self._leaving[name].set()
        await self.turn()

    async def turn(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


def test_as_many_as_there_is_room_for_are_inside_and_the_others_follow_in_order() -> None:
    async def case() -> None:
        inside = Inside()
        for name, size in (("a", HALF), ("b", HALF), ("c", HALF + 1), ("d", 1)):
            await inside.enter(name, size)
        assert inside.names == ["a", "b"]
        await inside.leave("a")
        assert inside.names == ["b"]
        await inside.leave("b")
        assert inside.names == ["c", "d"]

    run(case)


def test_one_that_is_larger_than_the_room_is_inside_alone() -> None:
    async def case() -> None:
        inside = Inside()
        for name, size in (("a", 1), ("b", 9 * MOST_BYTES), ("c", 1)):
            await inside.enter(name, size)
        assert inside.names == ["a"]
        await inside.leave("a")
        assert inside.names == ["b"]
        await inside.leave("b")
        assert inside.names == ["c"]

    run(case)


def test_one_that_goes_away_leaves_its_room_to_others() -> None:
    async def case() -> None:
        inside = Inside()
        first = await inside.enter("a", MOST_BYTES)
        waiting = await inside.enter("b", MOST_BYTES)
        await inside.enter("c", 1)
        waiting.cancel()
        await inside.turn()
        assert inside.names == ["a"]
        first.cancel()
        await inside.turn()
        assert "c" in inside.names
        await inside.leave("c")
        await inside.enter("d", MOST_BYTES)
        assert "d" in inside.names

    run(case)


def test_many_large_bodies_at_once_take_little_more_memory_than_one(sqlite_world: World) -> None:
    async def send(number: int) -> int:
        """The most memory meanwhile."""
        tracemalloc.start()
        assert await asyncio.gather(*(post(sqlite_world, BRACKETS) for _ in range(number))) == [400] * number
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    assert asyncio.run(send(5)) < 2 * asyncio.run(send(1))


def test_an_application_that_is_started_again_takes_large_bodies(sqlite_world: World) -> None:
    for _ in range(2):
        with sqlite_world.client("acme") as client:
            answer = client.post(f"{API}/jobs", content=BRACKETS, headers={"Content-Type": "application/json"})
            assert answer.status_code == 400
