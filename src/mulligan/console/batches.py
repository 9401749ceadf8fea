"""Batches: draft, publish, list, retry and cancel them. The store counts their members as those are settled."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

from msgspec import structs

from mulligan.console.arguments import BY_THE_CALL, CURSOR, FLAG, NAME, PAGE_SIZE, REQUEST_ID, STRING, check
from mulligan.errors import BadBatch, BadFilter, BatchExpired, InvalidArguments, MulliganError
from mulligan.failure.redact import bounded
from mulligan.lifecycle import LIVE, Move, State
from mulligan.records.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.records.document import Shape
from mulligan.records.job import Job, JobFilter, all_pages
from mulligan.records.limit import EVERY_OWNER
from mulligan.store.messages import Permission, Request
from mulligan.store.requests import BATCH, MEMBERS, part_id, to_once
from mulligan.store.store import Store
from mulligan.task.checks import check_name
from mulligan.task.client import Client
from mulligan.task.task import Binding, Task, settled_follow_up
from mulligan.values.duration import Duration, parse

# Members added in one transaction: adding a hundred thousand must not block other writers.
CHUNK = 1_000
PAGE = 500


@dataclass(frozen=True, slots=True)
class Retried:
    """The members that start again, and those that do not, each with the reason."""

    _shape: ClassVar = Shape(
        adds=("retried",), omits=("jobs",), restore=lambda known: {"jobs": tuple(known["retried"])}
    )

    batch: "Batch"
    jobs: tuple[str, ...]
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def retried(self) -> tuple[str, ...]:
        return self.jobs


@dataclass(frozen=True, kw_only=True)
class Batch(BatchRecord):
    """A batch as it was when it was read. `refresh()` reads it again."""

    _batches: "Batches" = field(repr=False, compare=False)

    @check(calls=BY_THE_CALL, connection=BY_THE_CALL)
    def add(self, *calls: Binding[Any], connection: Any = None) -> list[Job[Any]]:
        """Store calls made with `task.bind(…)` as members. They wait until the batch is published.

        Each thousand is one transaction; with `connection`, all are stored in its transaction.
        """
        return self._batches.add(self, calls, connection=connection)

    @check(owner=NAME, actor=STRING, request_id=REQUEST_ID)
    def publish(self, *, owner: str | None = None, actor: str | None = None, request_id: str | None = None) -> "Batch":
        """Count the members and let them run. Publishing again changes nothing.

        Returns the published batch; this object stays a draft."""
        return self._batches.publish(self.id, owner=owner, actor=actor, request_id=request_id)

    @check(cancelled=FLAG, owner=NAME, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def retry_failed(
        self,
        *,
        cancelled: bool = False,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Retried:
        """Retry all failed members, with `cancelled` the cancelled ones too. A settled batch opens again."""
        return self._batches.retry(
            self.id, cancelled=cancelled, owner=owner, actor=actor, reason=reason, request_id=request_id
        )

    @check(owner=NAME, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def cancel(
        self,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> "Batch":
        """Cancel all members that are not over. Running ones are asked to stop."""
        return self._batches.cancel(self.id, owner=owner, actor=actor, reason=reason, request_id=request_id)

    def refresh(self) -> "Batch":
        """Read the batch again."""
        return self._batches.find(self.id)


@dataclass(frozen=True, slots=True)
class Batches:
    """`permission` has the preconditions of tasks for a manual retry."""

    store: Callable[[], Store]
    ids: Callable[[], str]
    client: Client
    permission: Callable[[], Permission]

    @check(
        name=BY_THE_CALL,
        owner=BY_THE_CALL,
        expires_in=BY_THE_CALL,
        on_settled=BY_THE_CALL,
        success_at=BY_THE_CALL,
        abort_above=BY_THE_CALL,
        request_id=REQUEST_ID,
    )
    def create(
        self,
        name: str,
        *,
        owner: str = "",
        expires_in: Duration | None = None,
        on_settled: Task[..., Any, Any] | None = None,
        success_at: float = 1.0,
        abort_above: float | None = None,
        request_id: str | None = None,
    ) -> Batch:
        new = NewBatch(
            id=self.ids(),
            name=_name("the name of a batch", name),
            owner=_owner(owner) if owner != "" else "",
            success_at=_fraction("success_at", success_at, is_zero_allowed=False),
            abort_above=None if abort_above is None else _fraction("abort_above", abort_above),
            expires_in=None if expires_in is None else _time(expires_in),
            on_settled=settled_follow_up(on_settled, self.client, owner=owner),
        )
        terms = {each.name: getattr(new, each.name) for each in fields(NewBatch) if each.name != "id"}
        once = to_once(request_id, "batch", BATCH, owner or None, **terms)
        return self._batch(self.store().create_batch(new, once=once))

    def add(self, batch: BatchRecord, calls: Sequence[Binding[Any]], *, connection: Any = None) -> list[Job[Any]]:
        members = [_member(call, batch) for call in calls]
        if connection is not None or any(member.options.connection is not None for member in members):
            return self.client.enqueue(members, connection=connection)
        chunks = (members[start : start + CHUNK] for start in range(0, len(members), CHUNK))
        return [job for chunk in chunks for job in self.client.enqueue(chunk)]

    @check(batch_id=NAME, owner=NAME, actor=STRING, request_id=REQUEST_ID)
    def publish(
        self, batch_id: str, *, owner: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Batch:
        once = to_once(request_id, "publish batch", BATCH, owner, batch=batch_id, actor=actor)
        return self._batch(self.store().publish(batch_id, owner=owner, actor=bounded(actor), once=once))

    @check(batch_id=NAME, owner=NAME)
    def find(self, batch_id: str, *, owner: str | None = None) -> Batch:
        return self._batch(self.store().batch(batch_id, owner=owner))

    @check(state=BY_THE_CALL, owner=NAME, limit=PAGE_SIZE, cursor=CURSOR)
    def search(
        self,
        *,
        state: BatchState | str | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Batch]:
        if state is not None and state not in tuple(BatchState):
            raise BadFilter("state", state, "one of " + ", ".join(BatchState))
        found = self.store().batches(
            state=None if state is None else BatchState(state),
            owner=owner,
            limit=limit,
            cursor=cursor,
        )
        return [self._batch(record) for record in found]

    @check(batch_id=NAME, cancelled=FLAG, owner=NAME, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def retry(
        self,
        batch_id: str,
        *,
        cancelled: bool = False,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Retried:
        terms = {"batch": batch_id, "cancelled": cancelled, "actor": actor, "reason": reason}
        once = to_once(request_id, "retry batch", MEMBERS, owner, **terms)
        states = (State.FAILED, State.CANCELLED) if cancelled else (State.FAILED,)
        permission = self.permission()
        members = [
            (job.id, permission.concerns(job.kind, was_rejected=job.was_rejected))
            for job in self._members(batch_id, states)
        ]
        request = BatchRetry(
            id=self.ids(),
            batch=batch_id,
            jobs=tuple(job_id for job_id, is_asked in members if not is_asked),
            asked=tuple(job_id for job_id, is_asked in members if is_asked),
            owner=owner,
            actor=bounded(actor),
            reason=bounded(reason),
        )
        retried = self.store().retry_members(request, permission=permission, once=once)
        if not members and not retried.jobs and retried.batch.state is BatchState.EXPIRED:
            raise BatchExpired(retried.batch.id, retried.batch.name)
        return Retried(self._batch(retried.batch), tuple(retried.jobs), retried.refused)

    @check(batch_id=NAME, owner=NAME, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def cancel(
        self,
        batch_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Batch:
        once = to_once(request_id, "cancel batch", BATCH, owner, batch=batch_id, actor=actor, reason=reason)

        request = Request(id="", move=Move.MANUAL_CANCEL, job="", actor=bounded(actor), reason=bounded(reason))

        def cancel() -> BatchRecord:
            self.store().batch(batch_id, owner=owner)
            for job in self._members(batch_id, LIVE):
                self._cancel(replace(request, id=part_id(once, job.id, self.ids), job=job.id))
            return self.store().batch(batch_id)

        return self._batch(self.store().in_parts(once, cancel))

    def _cancel(self, request: Request) -> None:
        try:
            self.store().move(request)
        except MulliganError:
            # A member that ended in the meantime needs no cancellation.
            if not self.store().job(request.job).state.is_final:
                raise

    def _members(self, batch_id: str, states: Sequence[State]) -> Iterator[Job[Any]]:
        for state in states:
            for page in all_pages(partial(self.store().jobs, JobFilter(batch=batch_id, state=state), limit=PAGE)):
                yield from page.jobs

    def _batch(self, record: BatchRecord) -> Batch:
        return Batch(**{each.name: getattr(record, each.name) for each in fields(BatchRecord)}, _batches=self)


def _member(call: Binding[Any], batch: BatchRecord) -> Binding[Any]:
    if not isinstance(call, Binding):
        raise BadBatch(f"batch.add takes calls made with task.bind(…), not {call!r:.200}")
    options = call.options
    if options.owner not in ("", batch.owner) or options.batch not in (None, batch.id):
        raise InvalidArguments(call.task.name, f"the call belongs to another owner or another batch than {batch.id!r}")
    return structs.replace(call, options=replace(options, batch=batch.id, owner=batch.owner))


def _name(what: str, name: str) -> str:
    try:
        return check_name(what, name)
    except MulliganError as error:
        raise BadBatch(str(error)) from None


def _owner(owner: str) -> str:
    if owner == EVERY_OWNER:
        raise BadBatch("the owner of a batch is '*', which stands for every owner; a batch has one owner or none")
    return _name("the owner of a batch", owner)


def _time(expires_in: Duration) -> timedelta:
    if not (length := parse(expires_in)):
        raise BadBatch("expires_in must be greater than zero, such as '7d'; without it a batch does not expire")
    return length


def _fraction(what: str, value: float, *, is_zero_allowed: bool = True) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1 or (value == 0 and not is_zero_allowed):
        begin = "from 0" if is_zero_allowed else "above 0"
        raise BadBatch(f"{what} must be a fraction of the members, {begin} up to 1, not {value!r:.200}")
    return float(value)
