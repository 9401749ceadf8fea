"""The hub: it reads the event log once for all streams of a process, and hands each event to those that want it.

It is the one part of the web code that reads the log of all owners. A stream gets an event only if `Wanted.fits` says
so, which compares the owner first. The reader begins with the first stream and ends with the last.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from mulligan.app import App
from mulligan.errors import BadArgument, StoreError
from mulligan.records.event import Event, EventPage
from mulligan.records.progress import Progress
from mulligan.store.messages import Changes
from mulligan.web.problems import Problem
from mulligan.web.stream.message import Written, write_event, write_progress
from mulligan.web.stream.shutdown import is_server_exiting
from mulligan.web.stream.stream import Stream
from mulligan.worker.drivers import Threads

logger = logging.getLogger("mulligan.web")

MOST_STREAMS = 1_000
MOST_PER_OWNER = 20
PAGE = 200
MOST_PROGRESS = 1_000
# Hints of changes may be lost: read again after this many seconds.
LOOK_AGAIN = 1.0
# Events that come together are read together.
SHORTEST_PAUSE = 0.05
OUTAGE_PAUSE = 1.0
PROGRESS_EVERY = 1.0
# A late commit may have an earlier time than one that was seen.
OVERLAP = timedelta(seconds=1)
EXIT_LOOK = 0.1
CHECK_EVERY = 0.5
# Replays read their own pages. So many at once, and so many of those that are a whole large transaction. On SQLite each
# thread has a connection with a cache of megabytes.
MOST_READS = 2
MOST_LARGE = 2


class Hub:
    def __init__(self, app: App) -> None:
        self._app = app
        self._streams: dict[str | None, dict[Stream, str]] = {}
        """By owner, each with the name whose streams are counted together."""
        self._tasks: list[asyncio.Task[None]] = []
        self.position = 0
        self.is_ready = asyncio.Event()
        self.reads = asyncio.Semaphore(MOST_READS)
        self.large_reads = asyncio.Semaphore(MOST_LARGE)
        self._threads = Threads("mulligan-stream")
        self._progress: dict[str, datetime] = {}
        self._progress_since: datetime | None = None
        self._progress_due = 0.0
        self._is_outage = False

    def __iter__(self) -> Iterator[Stream]:
        return (stream for streams in list(self._streams.values()) for stream in list(streams))

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        return await self._threads.run(function)

    def join(self, stream: Stream, counted_as: str) -> None:
        """Raises a Problem if there are too many streams."""
        counts = [name for streams in self._streams.values() for name in streams.values()]
        if len(counts) >= MOST_STREAMS or counts.count(counted_as) >= MOST_PER_OWNER:
            message = f"there are at most {MOST_PER_OWNER} streams of one owner and {MOST_STREAMS:,} of all"
            raise Problem(429, "TOO_MANY_STREAMS", message, headers={"Retry-After": "10"})
        self._streams.setdefault(stream.wanted.owner, {})[stream] = counted_as
        if not self._tasks:
            self._start()

    def leave(self, stream: Stream) -> None:
        streams = self._streams.get(stream.wanted.owner, {})
        streams.pop(stream, None)
        if not streams:
            self._streams.pop(stream.wanted.owner, None)
        if not self._streams:
            self._stop()

    def close(self) -> None:
        """End all streams at once, because the server ends."""
        for stream in self:
            stream.close()

    def _start(self) -> None:
        # Asyncio objects belong to the loop of the first stream.
        self.is_ready = asyncio.Event()
        self.reads, self.large_reads = asyncio.Semaphore(MOST_READS), asyncio.Semaphore(MOST_LARGE)
        self._progress, self._progress_since, self._progress_due = {}, None, 0.0
        self._tasks = [asyncio.create_task(run()) for run in (self._follow, self._watch_server, self._check_callers)]

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    async def _watch_server(self) -> None:
        while not is_server_exiting():  # noqa: ASYNC110
            await asyncio.sleep(EXIT_LOOK)
        self.close()

    async def _check_callers(self) -> None:
        """A key that is revoked ends its streams."""
        while True:
            await asyncio.sleep(CHECK_EVERY)
            for stream in self:
                if not await stream.is_allowed():
                    stream.close()

    # The reader of the log

    async def _follow(self) -> None:
        changes: Changes | None = None
        try:
            while True:
                try:
                    changes = changes or await self._open()
                    await self._read_on()
                    await self._read_progress()
                    self._end_outage()
                    await self.in_thread(partial(changes.wait, LOOK_AGAIN))
                    await asyncio.sleep(SHORTEST_PAUSE)
                except Exception as error:
                    self._begin_outage(error)
                    await asyncio.sleep(OUTAGE_PAUSE)
        finally:
            if changes is not None:
                # It may wait for a call that is under way.
                self._threads.start(changes.close)

    async def _open(self) -> Changes:
        # Before any stream is live: what was reported until now is not repeated.
        await self._skip_progress()
        # Hints are awaited before the position is known: a change between the two is not missed.
        changes: Changes = await self.in_thread(lambda: self._app.store.changes())
        self.position = await self.in_thread(self._app.last_position)
        self.is_ready.set()
        return changes

    def _begin_outage(self, error: Exception) -> None:
        if not self._is_outage:
            self._is_outage = True
            # A store that cannot be reached is told in one line.
            details = None if isinstance(error, StoreError) else error
            logger.warning("the event stream cannot read the log; it tries again: %s", error, exc_info=details)

    def _end_outage(self) -> None:
        if self._is_outage:
            self._is_outage = False
            logger.info("the event stream reads the log again")

    async def _read_on(self) -> None:
        is_end = False
        while not is_end:
            owners = frozenset(self._streams)
            try:
                page, events = await self.in_thread(partial(self._read, owners))
            except BadArgument:
                # The database was replaced, for example by a backup. Each stream finds out by itself.
                self.position = await self.in_thread(self._app.last_position)
                self._fall_behind()
                return
            self._deliver(page, events)
            is_end = page.is_end

    def _read(self, owners: frozenset[str | None]) -> tuple[EventPage, list["Shared"]]:
        page = self._app.stream(after=self.position, limit=PAGE)
        return page, [Shared(event, owners) for event in page.events]

    def _deliver(self, page: EventPage, events: Sequence["Shared"]) -> None:
        self.position = page.position
        if page.is_pruned:
            self._fall_behind()
            return
        found: dict[Stream, list[Written]] = defaultdict(list)
        for shared in events:
            for stream in (*self._streams.get(shared.event.owner, ()), *self._streams.get(None, ())):
                if stream.is_live and stream.wanted.fits(shared.event):
                    found[stream].append(shared.write(is_for_owner=stream.is_for_owner))
        for stream in self:
            stream.offer(found.get(stream, []), page.position)

    def _fall_behind(self) -> None:
        for stream in self:
            stream.fall_behind()

    # Progress

    async def _skip_progress(self) -> None:
        now: datetime = await self.in_thread(lambda: self._app.store.now())
        self._progress_since = now - OVERLAP
        await self._new_progress()

    async def _read_progress(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._progress_due:
            return
        self._progress_due = now + PROGRESS_EVERY
        # Also if no stream wants it: one that comes later would get what is old by then.
        for progress in await self._new_progress():
            self._offer_progress(progress)

    async def _new_progress(self) -> list[Progress]:
        """What changed since the last call. It is remembered as long as it may be read again."""
        since = self._progress_since
        found: list[Progress] = await self.in_thread(lambda: self._app.progress(since=since, limit=MOST_PROGRESS))
        if not found:
            return []
        new = [progress for progress in found if self._progress.get(progress.job) != progress.at]
        is_full = len(found) == MOST_PROGRESS
        self._progress_since = since = found[-1].at - (timedelta(0) if is_full else OVERLAP)
        seen = self._progress | {progress.job: progress.at for progress in found}
        self._progress = {job: at for job, at in seen.items() if at > since}
        return new

    def _offer_progress(self, progress: Progress) -> None:
        streams = (*self._streams.get(progress.owner, ()), *self._streams.get(None, ()))
        wanting = [stream for stream in streams if stream.wanted.fits_progress(progress)]
        if wanting:
            message = write_progress(progress)
            for stream in wanting:
                stream.offer_progress(progress.job, message)


class Shared:
    """An event, written once for all streams that want it: once for administrators and once for its owner."""

    __slots__ = ("_written", "event")

    def __init__(self, event: Event, owners: frozenset[str | None]) -> None:
        self.event = event
        self._written: dict[bool, Written] = {}
        # In the thread that reads, not on the event loop.
        if None in owners:
            self.write(is_for_owner=False)
        if event.owner in owners:
            self.write(is_for_owner=True)

    def write(self, *, is_for_owner: bool) -> Written:
        if is_for_owner not in self._written:
            self._written[is_for_owner] = write_event(self.event, is_for_owner=is_for_owner)
        return self._written[is_for_owner]
