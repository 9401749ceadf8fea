"""Calls on an event loop that are made together."""

import asyncio
from collections.abc import Sequence

import pytest

from live import SOON
from mulligan.store.grouped import Grouped


class Recorded:
    """Doubles numbers. `groups` are those that were made; each waits until `may_end` is set."""

    def __init__(self, *, at_once: int = 1, most: int = 100, is_prompt: bool = False) -> None:
        self.groups: list[list[int]] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.calls = Grouped(self._double, at_once=at_once, most=most, is_prompt=is_prompt)

    async def _double(self, numbers: list[int]) -> Sequence[int]:
        self.groups.append(numbers)
        await self.may_end.wait()
        if 13 in numbers:
            raise ValueError("13")
        return [2 * number for number in numbers]

    def start(self, *numbers: int) -> "list[asyncio.Task[int]]":
        return [asyncio.ensure_future(self.calls.call(number)) for number in numbers]


async def turns(number: int = 5) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def run(case: object) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SOON):
            await case()  # type: ignore[operator]

    asyncio.run(bounded())


def test_calls_of_one_turn_are_one_group() -> None:
    async def case() -> None:
        recorded = Recorded(at_once=2)
        assert await asyncio.gather(*recorded.start(1, 2, 3)) == [2, 4, 6]
        assert recorded.groups == [[1, 2, 3]]

    run(case)


def test_calls_that_come_meanwhile_are_the_next_groups() -> None:
    async def case() -> None:
        recorded = Recorded(most=2)
        recorded.may_end.clear()
        first = recorded.start(1)
        await turns()
        others = recorded.start(2, 3, 4)
        await turns()
        assert recorded.groups == [[1]]
        recorded.may_end.set()
        assert await asyncio.gather(*first, *others) == [2, 4, 6, 8]
        assert recorded.groups == [[1], [2, 3], [4]]

    run(case)


def test_as_many_groups_as_allowed_are_under_way() -> None:
    async def case() -> None:
        recorded = Recorded(at_once=2)
        recorded.may_end.clear()
        tasks = []
        for number in range(4):
            tasks += recorded.start(number)
            await turns()
        assert recorded.groups == [[0], [1]]
        recorded.may_end.set()
        await asyncio.gather(*tasks)
        assert recorded.groups == [[0], [1], [2, 3]]

    run(case)


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_prompt_call_that_finds_none_under_way_is_made_alone_and_the_others_together(at_once: int) -> None:
    async def case() -> None:
        recorded = Recorded(at_once=at_once, is_prompt=True)
        recorded.may_end.clear()
        tasks = recorded.start(1, 2, 3)
        await turns()
        assert recorded.groups == [[1], [2, 3]][:at_once]
        recorded.may_end.set()
        assert await asyncio.gather(*tasks) == [2, 4, 6]
        assert recorded.groups == [[1], [2, 3]]

    run(case)


@pytest.mark.parametrize("is_prompt", [False, True])
@pytest.mark.parametrize("waits", range(8))
def test_a_call_at_any_time_around_the_end_of_a_group_is_made(waits: int, *, is_prompt: bool) -> None:
    async def case() -> None:
        recorded = Recorded(is_prompt=is_prompt)
        first = recorded.start(1)
        await turns(waits)
        assert await asyncio.gather(*first, *recorded.start(2)) == [2, 4]

    run(case)


def test_a_caller_that_is_cancelled_ends_no_other_call() -> None:
    async def case() -> None:
        recorded = Recorded()
        recorded.may_end.clear()
        leaving, staying = recorded.start(1, 2)
        await turns()
        late, waiting = recorded.start(3, 4)
        await turns()
        leaving.cancel()
        late.cancel()
        await turns()
        recorded.may_end.set()
        assert await asyncio.gather(staying, waiting) == [4, 8]
        assert recorded.groups == [[1, 2], [4]]

    run(case)


@pytest.mark.parametrize("is_prompt", [False, True])
def test_calls_go_on_after_all_tasks_were_cancelled(*, is_prompt: bool) -> None:
    async def case() -> None:
        recorded = Recorded(is_prompt=is_prompt)
        for moment in (0, 1, 2):
            recorded.may_end.clear()
            recorded.start(1)
            await turns(moment)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await turns()
            recorded.may_end.set()
            assert await recorded.calls.call(2) == 4

    run(case)


def test_an_error_is_that_of_the_whole_group_and_of_no_other() -> None:
    async def case() -> None:
        recorded = Recorded()
        found = await asyncio.gather(*recorded.start(12, 13), return_exceptions=True)
        assert [str(error) for error in found] == ["13", "13"]
        assert await recorded.calls.call(14) == 28

    run(case)
