"""Batches as people make, see and steer them. Workers count; here a batch is drafted, published, listed, retried."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any

from mulligan.console.arguments import checked_calls
from mulligan.errors import BadBatch, BadFilter, BatchExpired, InvalidArguments, MulliganError
from mulligan.failure.redact import bounded
from mulligan.lifecycle import LIVE, Move, State
from mulligan.records.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.records.job import Job, JobFilter
from mulligan.records.limit import EVERY_OWNER
from mulligan.store.messages import Request
from mulligan.store.store import Store
from mulligan.task.checks import check_name
from mulligan.task.client import Client
from mulligan.task.task import Binding, Task, settled_follow_up
from mulligan.values.duration import Duration, parse

# One transaction each, so that nobody waits for whoever adds a hundred thousand.
CHUNK = 1_000
PAGE = 500

CanRetry = Callable[[Job[Any]], None]


@dataclass(frozen=True, slots=True)
class Retried:
    """Which members start again, and which do not, with the reason."""

    batch: "Batch"
    jobs: tuple[str, ...]
    skipped: dict[str, str] = field(default_factory=dict)


@checked_calls
@dataclass(frozen=True, kw_only=True)
class Batch(BatchRecord):
    """A batch as it was when it was looked at, and what can be done with it. `refresh` looks again."""

    _batches: "Batches" = field(repr=False, compare=False)

    def add(self, *calls: Binding[Any], connection: Any = None) -> list[Job[Any]]:
        """Store calls made with `task.bind(…)` as members. They wait until the batch is published.

        A thousand at a time, each time all or none; with `connection`, all in that transaction.
        """
        return self._batches.add(self, calls, connection=connection)

    def publish(self, *, owner: str | None = None, actor: str | None = None) -> "Batch":
        """Count the members and let them run. Publishing again changes nothing.

        Gives the batch as it is then; this one stays the draft that it was."""
        return self._batches.publish(self.id, owner=owner, actor=actor)

    def retry_failed(
        self, *, cancelled: bool = False, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Retried:
        """Start all failed members again, and with `cancelled` those too; a batch that was settled is open again."""
        return self._batches.retry(self.id, cancelled=cancelled, owner=owner, actor=actor, reason=reason)

    def cancel(self, *, owner: str | None = None, actor: str | None = None, reason: str | None = None) -> "Batch":
        """Cancel all members that are not over; running ones are asked to stop."""
        return self._batches.cancel(self.id, owner=owner, actor=actor, reason=reason)

    def refresh(self) -> "Batch":
        return self._batches.batch(self.id)


class Batches:
    """`can_retry` raises when a task's own precondition says no."""

    def __init__(self, store: Callable[[], Store], ids: Callable[[], str], client: Client, can_retry: CanRetry) -> None:
        self._store = store
        self._ids = ids
        self._client = client
        self._can_retry = can_retry

    def create(
        self,
        name: str,
        *,
        owner: str = "",
        expires_in: Duration | None = None,
        on_settled: Task[..., Any, Any] | None = None,
        success_at: float = 1.0,
        abort_above: float | None = None,
    ) -> Batch:
        new = NewBatch(
            id=self._ids(),
            name=_name("the name of a batch", name),
            owner=_owner(owner) if owner != "" else "",
            success_at=_share("success_at", success_at, least=0.0, is_least_allowed=False),
            abort_above=None if abort_above is None else _share("abort_above", abort_above, least=0.0),
            expires_in=None if expires_in is None else _time(expires_in),
            on_settled=settled_follow_up(on_settled, self._client, owner=owner),
        )
        return self._seen(self._store().create_batch(new))

    def add(self, batch: BatchRecord, calls: Sequence[Binding[Any]], *, connection: Any = None) -> list[Job[Any]]:
        members = [_member(call, batch) for call in calls]
        if connection is not None or any(member.options.connection is not None for member in members):
            return self._client.enqueue(members, connection=connection)
        chunks = (members[start : start + CHUNK] for start in range(0, len(members), CHUNK))
        return [job for chunk in chunks for job in self._client.enqueue(chunk)]

    def publish(self, batch_id: str, *, owner: str | None = None, actor: str | None = None) -> Batch:
        return self._seen(self._store().publish(batch_id, owner=owner, actor=bounded(actor)))

    def batch(self, batch_id: str, *, owner: str | None = None) -> Batch:
        return self._seen(self._store().batch(batch_id, owner=owner))

    def batches(
        self,
        *,
        state: BatchState | str | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Batch]:
        if state is not None and state not in tuple(BatchState):
            raise BadFilter("state", state, "one of " + ", ".join(BatchState))
        found = self._store().batches(
            state=None if state is None else BatchState(state),
            owner=owner,
            limit=limit,
            cursor=cursor,
        )
        return [self._seen(record) for record in found]

    def retry(
        self,
        batch_id: str,
        *,
        cancelled: bool = False,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Retried:
        batch = self.batch(batch_id, owner=owner)
        if batch.state is BatchState.EXPIRED:
            raise BatchExpired(batch.id, batch.name)
        states = (State.FAILED, State.CANCELLED) if cancelled else (State.FAILED,)
        wanted, skipped = self._allowed(batch, states)
        request = BatchRetry(
            id=self._ids(),
            batch=batch.id,
            jobs=tuple(wanted),
            owner=owner,
            actor=bounded(actor),
            reason=bounded(reason),
        )
        retried = self._store().retry_members(request) if wanted else []
        held = dict.fromkeys(set(wanted).difference(retried), "another job holds the same dedupe key, or it moved on")
        return Retried(self.batch(batch_id), tuple(retried), skipped | held)

    def _allowed(self, batch: BatchRecord, states: Sequence[State]) -> tuple[list[str], dict[str, str]]:
        """Members whose task has nothing against it, and why the others have to stay as they are."""
        wanted, skipped = [], {}
        for job in self._members(batch, states):
            try:
                self._can_retry(job)
            except MulliganError as error:
                skipped[job.id] = str(error)
            else:
                wanted.append(job.id)
        return wanted, skipped

    def cancel(
        self, batch_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Batch:
        batch = self.batch(batch_id, owner=owner)
        who, why = bounded(actor), bounded(reason)
        for job in self._members(batch, LIVE):
            self._cancel(Request(id=self._ids(), move=Move.CANCEL_BY_HAND, job=job.id, actor=who, reason=why))
        return self.batch(batch_id)

    def _cancel(self, request: Request) -> None:
        try:
            self._store().move(request)
        except MulliganError:
            # It was over in this very moment; anything else shows in the batch that is returned.
            if not self._store().job(request.job).state.is_final:
                raise

    def _members(self, batch: BatchRecord, states: Sequence[State]) -> Iterator[Job[Any]]:
        for state in states:
            wanted, cursor = JobFilter(batch=batch.id, state=state), None
            while True:
                page = self._store().jobs(wanted, limit=PAGE, cursor=cursor)
                yield from page.jobs
                cursor = page.cursor
                if cursor is None:
                    break

    def _seen(self, record: BatchRecord) -> Batch:
        return Batch(**{each.name: getattr(record, each.name) for each in fields(BatchRecord)}, _batches=self)


def _member(call: Binding[Any], batch: BatchRecord) -> Binding[Any]:
    if not isinstance(call, Binding):
        raise BadBatch(f"batch.add takes calls made with task.bind(…), not {call!r:.200}")
    options = call.options
    if options.owner not in ("", batch.owner) or options.batch not in (None, batch.id):
        raise InvalidArguments(
            call.task.name, f"the call is another owner's or another batch's than batch {batch.id!r}"
        )
    return replace(call, options=replace(options, batch=batch.id, owner=batch.owner))


def _name(what: str, name: str) -> str:
    try:
        return check_name(what, name)
    except MulliganError as error:
        raise BadBatch(str(error)) from None


def _owner(owner: str) -> str:
    if owner == EVERY_OWNER:
        raise BadBatch("the owner of a batch is '*', which stands for every owner; a batch has one, or none")
    return _name("the owner of a batch", owner)


def _time(expires_in: Duration) -> timedelta:
    if not (length := parse(expires_in)):
        raise BadBatch("expires_in is longer than nothing, such as '7d'; without one a batch does not expire")
    return length


def _share(what: str, share: float, *, least: float, is_least_allowed: bool = True) -> float:
    is_number = isinstance(share, int | float) and not isinstance(share, bool)
    if not is_number or not least <= share <= 1 or (share == least and not is_least_allowed):
        begin = "from 0" if is_least_allowed else "above 0"
        raise BadBatch(f"{what} is a share of the members, {begin} up to 1, not {share!r:.200}")
    return float(share)
