"""The event log: read it, follow it, and derive projections from it; and the progress of running jobs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from mulligan.console.arguments import (
    APPLY,
    NAME,
    PAGE_SIZE,
    POSITION,
    PROJECTION,
    REQUEST_ID,
    TIME,
    TYPES,
    check,
)
from mulligan.errors import BadArgument, UnknownProjection
from mulligan.records.event import Cursor, Event, EventFilter, EventPage
from mulligan.records.progress import Progress
from mulligan.store.projections import Apply
from mulligan.store.requests import NOTHING, to_once
from mulligan.store.store import Store


@dataclass(frozen=True, slots=True)
class EventLog:
    """`owner=None` is the administrator."""

    store: Callable[[], Store]
    require_service: Callable[[str], None]
    """Raises UnknownService."""

    @check(service=NAME, batch=NAME, owner=NAME, limit=PAGE_SIZE)
    def history(
        self, *, service: str | None = None, batch: str | None = None, owner: str | None = None, limit: int = 100
    ) -> list[Event]:
        if (service is None) is (batch is None):
            raise BadArgument("the subject", {"service": service, "batch": batch}, "one of service= and batch=")
        if service is not None:
            self.require_service(service)
        if batch is not None:
            self.store().batch(batch, owner=owner)
        return self.store().history(service=service, batch=batch, owner=owner, limit=limit)

    @check(job=NAME, owner=NAME, after=POSITION, limit=PAGE_SIZE)
    def events(
        self, *, job: str | None = None, owner: str | None = None, after: int = 0, limit: int = 500
    ) -> list[Event]:
        return self.store().events(job=job, owner=owner, after=after, limit=limit)

    @check(after=POSITION, job=NAME, batch=NAME, kind=NAME, owner=NAME, types=TYPES, limit=PAGE_SIZE)
    def stream(
        self,
        *,
        after: int = 0,
        job: str | None = None,
        batch: str | None = None,
        kind: str | None = None,
        owner: str | None = None,
        types: Sequence[str] | None = None,
        limit: int = 500,
    ) -> EventPage:
        if job is not None:
            # A job is deleted with its events: without the job there is nothing to read, and there never will be.
            self.store().job(job, owner=owner)
        wanted = EventFilter(
            job=job, batch=batch, kind=kind, owner=owner, types=None if types is None else tuple(dict.fromkeys(types))
        )
        return self.store().stream(wanted, after=after, limit=limit)

    @check(back=POSITION)
    def last_position(self, *, back: int = 0) -> int:
        return self.store().last_position(back=back)

    @check(job=NAME, batch=NAME, owner=NAME, since=TIME, limit=PAGE_SIZE)
    def progress(
        self,
        *,
        job: str | None = None,
        batch: str | None = None,
        owner: str | None = None,
        since: datetime | None = None,
        limit: int = 500,
    ) -> list[Progress]:
        return self.store().progress(job=job, batch=batch, owner=owner, since=since, limit=limit)

    @check(name=PROJECTION, apply=APPLY, limit=PAGE_SIZE)
    def project(self, name: str, apply: Apply, *, limit: int = 1_000) -> int:
        return self.store().project(name, apply, limit=limit)

    def projections(self) -> list[Cursor]:
        return self.store().cursors()

    @check(name=PROJECTION, request_id=REQUEST_ID)
    def drop_projection(self, name: str, *, request_id: str | None = None) -> None:
        once = to_once(request_id, "drop projection", NOTHING, name=name)
        self.store().in_parts(once, lambda: self._drop(name))

    def _drop(self, name: str) -> None:
        if not self.store().drop_cursor(name):
            raise UnknownProjection(name, [cursor.name for cursor in self.store().cursors()])
