"""Short calls on the running event loop: the way to a thread and back would take longer than the call.

They use idle connections of the store. If there is none, a thread makes the call and leaves its connection idle for the
next one. So threads alone open connections and repeat calls.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

from mulligan.store.postgres.bounded import BoundedConnection, NoAnswer
from mulligan.store.postgres.connections import UNPREPARED, Connections

T = TypeVar("T")
Loop = asyncio.AbstractEventLoop


class NotOnLoop(Exception):
    """Only a thread can make this call."""


class LoopCalls:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def run(self, work: Callable[[BoundedConnection], PQGen[T]]) -> T:
        """Run an exchange with the server. Raises NotOnLoop, errors of the store, or those that a repetition may
        avoid."""
        connection = self._connections.take_idle()
        if connection is None:
            raise NotOnLoop
        try:
            with self._connections.translate_errors():
                return await _wait(work(connection), connection)
        except UNPREPARED:
            connection.close()
            raise
        finally:
            # A rollback would keep the loop waiting.
            self._connections.give_back(connection, rolls_back=False)


async def _wait(steps: PQGen[T], connection: BoundedConnection) -> T:
    loop, socket = asyncio.get_running_loop(), connection.pgconn.socket
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(await _ready(loop, socket, wanted, connection.limit))
    except StopIteration as end:
        result: T = end.value
        return result
    except NoAnswer:
        # It asks the server to cancel, which takes time too.
        await asyncio.to_thread(connection.give_up)
        raise


async def _ready(loop: Loop, socket: int, wanted: Wait, limit: float) -> Ready:
    """Wait until the socket can be read or written. Raises NoAnswer after `limit` seconds."""
    waiting: asyncio.Future[Ready] = loop.create_future()
    timer = loop.call_later(limit, _end, waiting, Ready.NONE)
    if wanted & Wait.R:
        loop.add_reader(socket, _end, waiting, Ready.R)
    if wanted & Wait.W:
        loop.add_writer(socket, _end, waiting, Ready.W)
    try:
        ready = await waiting
    finally:
        timer.cancel()
        if wanted & Wait.R:
            loop.remove_reader(socket)
        if wanted & Wait.W:
            loop.remove_writer(socket)
    if not ready:
        raise NoAnswer(limit)
    return ready


def _end(waiting: "asyncio.Future[Ready]", ready: Ready) -> None:
    # Reader, writer and timer may all be called before the task that waits.
    if not waiting.done():
        waiting.set_result(ready)
