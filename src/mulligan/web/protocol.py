"""HTTP on a connection, bounded: what is too large or comes too slowly is refused before it takes memory, and no
connection stays open without a request, or for an answer that its client does not read."""

import logging
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mulligan.web.connection import hold_little, reset
from mulligan.web.guard import LARGEST_HEADERS, LONGEST_PATH, LONGEST_QUERY
from mulligan.web.problems import MEDIA_TYPE, Problem, respond

# Request line and headers. The guard counts them exactly; this bounds what is held while they come.
LARGEST_HEAD = 2 * (LARGEST_HEADERS + LONGEST_PATH + LONGEST_QUERY)
# All of a message but its body: the head, the sizes of chunks, and trailers.
LARGEST_FRAME = 2**20
# Seconds within which a head must have come, the rest of a body whose request is answered already, and within which a
# client must take something of its answer.
PATIENCE = 10.0
# Seconds that an answer may still take once the server ends. uvicorn cancels what is under way soon after.
ENDING = 0.5

logger = logging.getLogger("mulligan.web")


class BoundedProtocol(HttpToolsProtocol):
    _timer: TimerHandle | None = None
    _reader_timer: TimerHandle | None = None
    _is_head = True
    _frame = 0
    """Bytes of this message that are not its body."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        hold_little(transport)
        # Writing is paused as soon as anything is left to send, even if it is the end of an answer.
        transport.set_write_buffer_limits(high=0)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_wait()
        self._end_reader_wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._frame += len(data)
        if self._frame > (LARGEST_HEAD if self._is_head else LARGEST_FRAME):
            self._refuse(Problem(431, "HEADERS_TOO_LARGE", f"a head has at most {LARGEST_HEAD:,} bytes"))
        elif self._timer is None and self._is_answered:
            # It ended the wait for the next request without beginning one, as an empty line does.
            self._wait(self._close)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_head = True
        if self._timer is None or self._is_answered:
            self._begin_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Nothing reads trailers, and there may be millions of them.
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_head = False
        self._end_wait()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._frame -= len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        is_cut = not self.pipeline and self.cycle.more_body
        super().on_response_complete()
        if is_cut:
            self._wait(self._close)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_reader_wait()

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(ENDING, self._end_answer)

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem(400, "MALFORMED_REQUEST", msg))

    def _unsupported_upgrade_warning(self) -> None:
        """Any client could fill the log with it."""

    @property
    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete

    def _begin_head(self) -> None:
        self._frame = 0
        late = Problem(408, "TOO_SLOW", f"the headers did not come within {PATIENCE:.0f} seconds")
        self._wait(lambda: self._refuse(late))

    def _wait(self, end: Callable[[], None]) -> None:
        self._end_wait()
        self._timer = self.loop.call_later(PATIENCE, end)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait_for_reader(self) -> None:
        self._end_reader_wait()
        unsent = self.transport.get_write_buffer_size()
        self._reader_timer = self.loop.call_later(PATIENCE, self._check_reader, unsent)

    def _end_reader_wait(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _check_reader(self, unsent: int) -> None:
        """A large answer may take its time, as long as the client takes some of it."""
        if self.transport.get_write_buffer_size() < unsent:
            self._wait_for_reader()
            return
        logger.info("a client was disconnected: it does not read its answer")
        reset(self.transport)

    def _end_answer(self) -> None:
        """End a connection whose answer is still being sent."""
        if self.flow.write_paused or self._is_answering:
            reset(self.transport)

    def _refuse(self, problem: Problem) -> None:
        # An answer in the middle of another would be read as a part of it.
        if not self.transport.is_closing() and not self._is_answering:
            self.transport.write(_written(problem))
        self._close()

    def _close(self) -> None:
        self._end_wait()
        if not self.transport.is_closing():
            self.transport.close()


def _written(problem: Problem) -> bytes:
    body: Any = respond(problem).body
    head = (
        f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + bytes(body)
