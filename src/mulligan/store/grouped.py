"""Calls on an event loop, grouped: those that come at once, or while others are under way, are made together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Loop = asyncio.AbstractEventLoop


@dataclass(slots=True)
class Calls:
    """Of one loop: the calls that wait, the tasks that make groups of them, the one of these that is about to begin,
    and how many calls are being made alone."""

    waiting: "list[tuple[Any, asyncio.Future[Any]]]" = field(default_factory=list)
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    beginning: "asyncio.Task[None] | None" = None
    alone: int = 0

    @property
    def under_way(self) -> int:
        return len(self.tasks) + self.alone


class Grouped(Generic[T, R]):
    """`run` makes calls together and returns the answer of each. At most `at_once` groups, of at most `most` calls, are
    under way on a loop. A group begins in the next turn of the loop, with all calls of this turn.

    With `is_prompt`, a call that finds none under way is made alone, in this turn."""

    def __init__(
        self, run: Callable[[list[T]], Awaitable[Sequence[R]]], *, at_once: int, most: int, is_prompt: bool = False
    ) -> None:
        self._make, self._at_once, self._most, self._is_prompt = run, at_once, most, is_prompt
        self._calls: dict[Loop, Calls] = {}

    async def call(self, item: T) -> R:
        """Raises what `run` raises for the group. A call that is cancelled while it waits is not made."""
        loop = asyncio.get_running_loop()
        calls = self._calls.get(loop) or self._begin(loop)
        if self._is_prompt and not calls.under_way:
            return await self._call_alone(loop, calls, item)
        waiting: asyncio.Future[R] = loop.create_future()
        calls.waiting.append((item, waiting))
        self._start(loop, calls)
        return await waiting

    async def _call_alone(self, loop: Loop, calls: Calls, item: T) -> R:
        calls.alone += 1
        try:
            (answer,) = await self._make([item])
            return answer
        finally:
            calls.alone -= 1
            if calls.waiting:
                self._start(loop, calls)

    def _start(self, loop: Loop, calls: Calls) -> None:
        """Begin a group in the next turn, if another may be under way."""
        if calls.beginning is None and calls.under_way < self._at_once:
            # Its own task: a caller that is cancelled must not end the calls of the others.
            calls.beginning = task = loop.create_task(self._run(calls))
            calls.tasks.add(task)
            task.add_done_callback(partial(_forget, calls))

    def _begin(self, loop: Loop) -> Calls:
        # Several threads may have a loop: the dictionary is replaced, not changed.
        going_on = {each: calls for each, calls in self._calls.items() if not each.is_closed()}
        self._calls = {**going_on, loop: (calls := Calls())}
        return calls

    async def _run(self, calls: Calls) -> None:
        task, calls.beginning = calls.beginning, None
        assert task is not None
        while taken := self._take(calls):
            await self._answer(taken)
        # Now: callbacks of a task are called a turn later, and a call may come before.
        _forget(calls, task)

    def _take(self, calls: Calls) -> "list[tuple[T, asyncio.Future[R]]]":
        # One that was cancelled waits no longer.
        waiting = [each for each in calls.waiting if not each[1].done()]
        taken, calls.waiting = waiting[: self._most], waiting[self._most :]
        return taken

    async def _answer(self, taken: "list[tuple[T, asyncio.Future[R]]]") -> None:
        try:
            answers = await self._make([item for item, _ in taken])
        except Exception as error:
            for _, waiting in taken:
                if not waiting.done():
                    waiting.set_exception(error)
        except BaseException:
            for _, waiting in taken:
                waiting.cancel()
            raise
        else:
            for (_, waiting), answer in zip(taken, answers, strict=True):
                if not waiting.done():
                    waiting.set_result(answer)


def _forget(calls: Calls, task: "asyncio.Task[None]") -> None:
    """Of one that was cancelled, perhaps before it began, as well."""
    calls.tasks.discard(task)
    if calls.beginning is task:
        calls.beginning = None
