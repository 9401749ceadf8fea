"""The duties that send events to subscriptions: `notify` reads the log, `digest` closes digests.

Both write in one transaction with the position that they have reached, so of several workers one writes, and a crash
repeats nothing.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from mulligan.errors import BatchNotFound, FinalError, JobNotFound, StoreError, SubscriptionNotFound
from mulligan.failure.redact import clip, first_line
from mulligan.failure.verdict import Failure
from mulligan.notify import cloud_event
from mulligan.notify.matching import (
    MAILS_PER_HOUR,
    QUIET,
    SHORT_QUIET,
    Match,
    Message,
    Notification,
    can_notify,
    close_digest,
    keys_of,
    match,
    plan,
    resolve,
    wants_tags,
)
from mulligan.notify.sending import DeliveryJobs
from mulligan.notify.signature import encode_secret
from mulligan.notify.subscription import (
    FindRecipient,
    Notice,
    Subscription,
    WriteLabel,
    WritePayload,
    check_target,
)
from mulligan.records.delivery import (
    DeliveryState,
    DigestContents,
    DigestPlan,
    Incident,
    NewDelivery,
    NotifyPlan,
    NotifyState,
    NotifyStep,
)
from mulligan.records.event import Event, EventFilter, EventPage
from mulligan.records.subscription import (
    DEFAULT_DIGEST,
    DELIVER_KIND,
    SEEN_EVERY,
    Channel,
    SubscriptionRecord,
    about,
)
from mulligan.records.token import RandomBytes
from mulligan.store.store import Store
from mulligan.values.clock import Clock
from mulligan.values.ids import id_from
from mulligan.values.moment import microseconds

logger = logging.getLogger("mulligan.notify")

CURSOR = "mulligan.notify"
# Pages of one step; the next step continues.
PASSES = 20
# How long an event waits for a function of the code that raises.
PATIENCE = timedelta(minutes=10)
# How often the cursor moves on while there is no subscription.
IDLE_SECONDS = 10.0
# The ends of the jobs that send deliveries.
ENDS = ("job.failed", "job.cancelled")
LONGEST_LABEL = 200

Definitions = Mapping[tuple[str | None, str], Subscription]
Payloads = Mapping[str, WritePayload]
"""Bodies of webhooks by the type of the event, for subscriptions without a function of their own."""


class _NotYet(Exception):
    """A function of the code raised: the event is sent later."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


@dataclass(slots=True, eq=False)
class Notify:
    """Matches the next events of the log with the subscriptions, and stores deliveries and the jobs that send them."""

    name = "notify"

    store: Store
    jobs: DeliveryJobs
    _: KW_ONLY
    definitions: Definitions
    payloads: Payloads
    clock: Clock
    ids: Callable[[], str]
    secrets: RandomBytes
    source: str = "mulligan"
    queue: str | None = None
    interval: float = 1.0
    limit: int = 500
    _declared: list[str] = field(default_factory=list)
    _report_at: float | None = None
    _moved_at: float | None = None

    def step(self) -> int:
        """How many deliveries were stored."""
        self._report()
        before = self._position()
        if before is None:
            return 0
        now = self.store.now()
        wanted = [each for each in self.store.subscriptions(is_enabled=True) if each.is_in_use(now)]
        self.jobs.limit(is_needed=bool(wanted))
        if not wanted and self._is_idle():
            return 0
        if any(each.is_in_code and (each.owner, each.name) not in self.definitions for each in wanted):
            # A worker with that code sends the events.
            return 0
        return self._notify_pages(wanted, before, now)

    # The subscriptions of the code

    def _report(self) -> None:
        if not self.definitions:
            return
        now = self.clock.monotonic()
        if self._report_at is None:
            self._declared = [self._declare(each) for each in self.definitions.values()]
        elif now >= self._report_at:
            self.store.report_subscriptions(self._declared)
        else:
            return
        self._report_at = now + SEEN_EVERY.total_seconds()

    def _declare(self, subscription: Subscription) -> str:
        secret = encode_secret(self.secrets(32)) if subscription.channel is Channel.WEBHOOK else None
        return self.store.declare_subscription(subscription.to_new(self.ids(), secret), cursor=CURSOR).id

    # The log

    def _position(self) -> int | None:
        return next((cursor.position for cursor in self.store.cursors() if cursor.name == CURSOR), None)

    def _is_idle(self) -> bool:
        """Without subscriptions, the log is read now and then: for the ends of what was sent, and so that its events
        can be deleted."""
        now = self.clock.monotonic()
        if self._moved_at is not None and now < self._moved_at + IDLE_SECONDS:
            return True
        self._moved_at = now
        return False

    def _notify_pages(self, wanted: Sequence[SubscriptionRecord], before: int, now: datetime) -> int:
        types = tuple({*ENDS, *(each for one in wanted for each in one.choice.types)})
        number_sent = 0
        for _ in range(PASSES):
            page = self.store.stream(EventFilter(types=types), after=before, limit=self.limit)
            if page.position == before:
                break
            done = self._notify_page(page, wanted, before, now)
            if done is None:
                break
            position, number = done
            number_sent, before = number_sent + number, position
            if page.is_end or position < page.position:
                break
        return number_sent

    def _notify_page(
        self, page: EventPage, wanted: Sequence[SubscriptionRecord], before: int, now: datetime
    ) -> tuple[int, int] | None:
        """The position that was reached, and the number of deliveries; None if another worker was faster."""
        events, position = page.events, page.position
        try:
            notifications = self._prepare(events, wanted, now)
        except _NotYet as problem:
            events, position = tuple(each for each in events if each.position < problem.position), problem.position - 1
            if position <= before:
                return None
            notifications = self._prepare(events, wanted, now)
        page_of_log = MatchedEvents(events, notifications)
        done = self.store.notify(page_of_log.to_step(before, position, partial(self._plan, notifications)))
        return None if done is None else (position, len(done.deliveries))

    def _prepare(
        self, events: Sequence[Event], wanted: Sequence[SubscriptionRecord], now: datetime
    ) -> list[Notification]:
        jobs = sorted({event.job for event in events if event.job and can_notify(event)})
        tags = self.store.tags_of(jobs) if jobs and wants_tags(wanted) else {}
        notices = Notices(self.store)
        return [self._find(each, notices, now) for each in match(events, wanted, tags)]

    def _find(self, found: Match, notices: "Notices", now: datetime) -> Notification:
        functions = self._functions(found)
        if not functions.any:
            return Notification(found, found.subscription.to)
        try:
            return _ask(functions, found, notices.of(found.event))
        except StoreError:
            raise
        except Exception as error:
            problem = first_line(Failure.of(error).line)
            name, event = found.subscription.name, found.event
            if now - event.at < PATIENCE and not isinstance(error, FinalError):
                logger.warning("a function of subscription %r failed for event %d: %s", name, event.position, problem)
                raise _NotYet(event.position) from None
            logger.error("subscription %r: event %d is not sent: %s", name, event.position, problem)
            return Notification(found, None, reason=f"a function of the code failed: {problem}", is_failed=True)

    def _functions(self, found: Match) -> "Functions":
        subscription = found.subscription
        code = self.definitions.get((subscription.owner, subscription.name)) if subscription.is_in_code else None
        payload = self.payloads.get(found.event.type) if subscription.channel is Channel.WEBHOOK else None
        if code is None:
            return Functions(payload=payload)
        return Functions(code.find, code.label, code.payload or payload)

    def _plan(self, notifications: Sequence[Notification], state: NotifyState) -> NotifyPlan:
        planned = plan(notifications, state, encode=self._encode)
        return with_jobs(planned, self.jobs, self.queue)

    def _encode(self, message: Message, delivery: str, event: Event, sequence: int) -> str:
        return cloud_event.encode(
            message.data,
            id=delivery,
            type=message.type,
            source=self.source,
            time=event.at,
            subject=about(event) or None,
            sequence=sequence,
        ).decode()


@dataclass(frozen=True, slots=True)
class MatchedEvents:
    """Events of the log, and their notifications."""

    events: Sequence[Event]
    notifications: Sequence[Notification]

    def to_step(self, before: int, position: int, planned: Callable[[NotifyState], NotifyPlan]) -> NotifyStep:
        return NotifyStep(
            cursor=CURSOR,
            before=before,
            position=position,
            keys=keys_of(self.notifications),
            plan=planned,
            ended={each.job: _reason(each) for each in self.events if each.kind == DELIVER_KIND and each.type in ENDS},
        )


def _reason(event: Event) -> str:
    reason = event.data.get("error") or event.data.get("reason") or event.data.get("message") or event.type
    return first_line(str(reason))


def with_jobs(planned: NotifyPlan, jobs: DeliveryJobs, queue: str | None) -> NotifyPlan:
    """The plan with a job for each delivery that is sent now. The job has the delivery's id."""
    sent = [new for new in planned.deliveries if new.state is DeliveryState.PENDING]
    deliveries = [replace(new, job=new.id) if new.state is DeliveryState.PENDING else new for new in planned.deliveries]
    return replace(planned, deliveries=deliveries, jobs=[jobs.to_send(new, new.id, queue) for new in sent])


class Notices:
    """Reads the jobs and batches of events, each once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: dict[str, Any] = {}
        self._batches: dict[str, Any] = {}

    def of(self, event: Event) -> Notice:
        return Notice(event, self._job(event.job), self._batch(event.batch))

    def _job(self, job: str) -> Any:
        if job and job not in self._jobs:
            try:
                self._jobs[job] = self._store.job(job)
            except JobNotFound:
                self._jobs[job] = None
        return self._jobs.get(job)

    def _batch(self, batch: str | None) -> Any:
        if batch and batch not in self._batches:
            try:
                self._batches[batch] = self._store.batch(batch)
            except BatchNotFound:
                self._batches[batch] = None
        return self._batches.get(batch or "")


@dataclass(frozen=True, slots=True)
class Functions:
    """What the code of the app says about one notification."""

    find: FindRecipient | None = None
    label: WriteLabel | None = None
    payload: WritePayload | None = None

    @property
    def any(self) -> bool:
        return any((self.find, self.label, self.payload))


def _ask(functions: Functions, found: Match, notice: Notice) -> Notification:
    """Call the functions of the code. Raises what they raise, and ValueError for a body that cannot be used."""
    to = found.subscription.to if functions.find is None else functions.find(notice)
    if to is None:
        return Notification(found, None, reason="the function of the code found no recipient")
    try:
        check_target(found.subscription.channel, to)
    except ValueError as error:
        # To ask again would not change it, and would delay the events after this one.
        reason = f"the function of the code found a recipient that cannot be used: {first_line(str(error))}"
        return Notification(found, None, reason=reason, is_failed=True)
    label = None if functions.label is None else clip(first_line(str(functions.label(notice))), LONGEST_LABEL)
    message = None if functions.payload is None else _message(functions.payload, notice)
    return Notification(found, to, message=message, label=label)


def _message(payload: WritePayload, notice: Notice) -> Message:
    written = payload(notice)
    name, data = (written.type, written.data) if isinstance(written, Message) else written
    if not isinstance(name, str) or not name or not isinstance(data, Mapping):
        raise ValueError(f"payload returned {written!r:.200}, but it must return a type and a mapping")
    # Now: what cannot be encoded must not stop the transaction.
    cloud_event.encode(data, id="", type=name, source="", time=notice.event.at)
    return Message(name, data)


@dataclass(slots=True, eq=False)
class Digest:
    """Ends incidents that are over, and closes the digests that are due."""

    name = "digest"

    store: Store
    jobs: DeliveryJobs
    _: KW_ONLY
    clock: Clock
    queue: str | None = None
    interval: float = 5.0
    limit: int = 100
    _forget_at: float | None = None

    def step(self) -> int:
        """How many mails were begun."""
        for incident in self.store.incidents_over(quiet=QUIET, pause=SHORT_QUIET, limit=self.limit):
            with suppress(SubscriptionNotFound):
                self._resolve(incident)
        self._forget()
        return sum(self._close(digest) for digest in self.store.digests_due(limit=self.limit))

    def _resolve(self, incident: Incident) -> None:
        subscription = self.store.subscription(incident.subscription)

        def note(state: NotifyState) -> NotifyPlan:
            is_retried = state.now - incident.last_at < QUIET
            return resolve(incident, subscription, state, is_retried=is_retried)

        self.store.end_incident(incident, note)

    def _forget(self) -> None:
        now = self.clock.monotonic()
        if self._forget_at is None or now >= self._forget_at:
            self._forget_at = now + QUIET.total_seconds()
            self.store.forget_incidents(quiet=QUIET)

    def _close(self, digest: DigestPlan) -> bool:
        with suppress(SubscriptionNotFound):
            make = partial(self._make, self.store.subscription(digest.subscription))
            return self.store.close_digest(digest, most_mails=MAILS_PER_HOUR, make=make) > 0
        return False

    def _make(self, subscription: SubscriptionRecord, digest: DigestPlan, contents: DigestContents) -> NotifyPlan:
        now = contents.now
        closed = close_digest(digest, subscription.digest or DEFAULT_DIGEST, now, has_more=contents.has_more)
        if not contents.number:
            return NotifyPlan(digests=[closed])
        new = NewDelivery(
            id=id_from(f"{digest.id}/{microseconds(digest.due_at or now)}", microseconds(now) // 1000),
            subscription=subscription.id,
            owner=subscription.owner,
            channel=subscription.channel,
            type="digest",
            about="",
            to=digest.to,
            state=DeliveryState.PENDING,
            items=contents.number,
        )
        return with_jobs(NotifyPlan([new], (), [closed]), self.jobs, self.queue)
