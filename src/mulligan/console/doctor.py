"""Doctor: checks store, workers and jobs, and reports what is wrong with its remedy. It changes nothing."""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timedelta

from mulligan.console.arguments import BY_THE_CALL, DOCTOR_LIMITS, check
from mulligan.console.duties import DutyStatus
from mulligan.console.recent_failures import MOST_SUBJECTS, examine_recent
from mulligan.errors import SchemaMismatch, StoreDamaged, StoreError, UndeclaredProxy
from mulligan.explain.context import is_alive
from mulligan.explain.words import at, counted, listed, quoted, relative
from mulligan.lifecycle import State
from mulligan.policies.file import PolicyFile
from mulligan.policies.unknown_names import Names, find_unknown_names
from mulligan.records.counts import Counts
from mulligan.records.delivery import DeliveryState
from mulligan.records.finding import Check, Finding, Level, Limits, ok, problem, warning
from mulligan.records.job import JobFilter, Lease
from mulligan.records.readiness import Component, component
from mulligan.records.subscription import Channel
from mulligan.service.records import Family, ServiceRecord
from mulligan.store.messages import Lane, WorkerRecord
from mulligan.store.store import Store
from mulligan.values.clock import Clock
from mulligan.values.duration import describe
from mulligan.values.suggest import did_you_mean

NAMED = 3
MANY = 1_000
# The fraction of a limit on names from which to warn.
NEARLY = 0.8
# From this multiple of the limit on, leases and delays are wrong.
FAR_OFF = 30
# A duty is late after this many intervals without a run.
LATE_INTERVALS = 10
# The components that findings about a store that cannot be used are about.
NAMES = {Check.REACHABLE: "store", Check.SCHEMA: "schema", Check.POSTGRES_PROXY: "store"}
MORE_WORKERS = "run more workers, or raise --concurrency; see what they are busy with: mulligan workers"
AWAY = "fix the cause; workers keep their running jobs and settle them when the store is back"
DAMAGED = (
    "stop all workers now: no job in a damaged file is reliable, and every write may damage more; copy the "
    "file with its -wal and -shm first; then restore the last backup (later changes are lost), or recover from the "
    "copy what can be read: sqlite3 COPY '.recover' | sqlite3 NEW"
)


@dataclass(frozen=True, slots=True)
class Doctor:
    store: Callable[[], Store]
    clock: Callable[[], Clock]
    _: KW_ONLY
    has_database: Callable[[], bool]
    stuck_after: Callable[[], timedelta]
    policies: PolicyFile
    names: Callable[[], Names]
    has_smtp: Callable[[], bool]
    duties: Callable[[], list[DutyStatus]]
    limits: Callable[[], Limits]

    @check(limits=DOCTOR_LIMITS, besides=BY_THE_CALL)
    def examine(self, limits: Limits | None = None, *, besides: Collection[Check] = ()) -> list[Finding]:
        """Run every check that the state of the store allows. `besides` are checks whose cost the caller can do
        without. Without `limits`, the thresholds of the alert rules in force."""
        opened = self._open(limits)
        if isinstance(opened, list):
            return opened
        limits, clock = opened
        try:
            return [*self._examine(self.store(), limits, besides), clock]
        except StoreError as error:
            return [_unreachable(error), clock]

    @check(limits=DOCTOR_LIMITS)
    def check_components(self, limits: Limits | None = None) -> list[Component]:
        """What an installation needs, by the checks that cost the same however many jobs there are."""
        opened = self._open(limits)
        if isinstance(opened, list):
            return [component(NAMES[finding.code], finding) for finding in opened]
        limits, _ = opened
        try:
            return list(self._components(self.store(), limits))
        except StoreError as error:
            return [component("store", _unreachable(error))]

    def _open(self, limits: Limits | None) -> tuple[Limits, Finding] | list[Finding]:
        """The limits in force and the finding about the clock; or all findings, if the store cannot be used."""
        if not self.has_database():
            return [problem(Check.REACHABLE, "there is no database yet", "make it: mulligan migrate")]
        try:
            store = self.store()
            limits = limits or self.limits()
            return limits, self._clock_of(store, limits)
        except SchemaMismatch as error:
            return [ok(Check.REACHABLE, "the store answers"), _wrong_schema(error)]
        except UndeclaredProxy as error:
            return [ok(Check.REACHABLE, "the store answers"), problem(Check.POSTGRES_PROXY, str(error), error.remedy)]
        except StoreError as error:
            return [_unreachable(error)]

    def _components(self, store: Store, limits: Limits) -> Iterator[Component]:
        now = store.now()
        alive = [worker for worker in store.workers() if is_alive(worker, now)]
        is_needed = store.next_due() is not None or bool(store.depths()[State.QUEUED])
        yield component("store", ok(Check.REACHABLE, "the store answers"))
        yield component("schema", ok(Check.SCHEMA, "the schema is up to date"))
        yield component("workers", workers_alive(alive, is_needed=is_needed))
        yield component("projection", projection(store, now, limits))
        yield component("notifications", deliveries(store, has_smtp=self.has_smtp()))
        for status in self.duties():
            last_run_at = status.last.at if status.last else None
            yield component(f"duty {status.name}", duty_late(status, now, limits), last_run_at=last_run_at)

    def _clock_of(self, store: Store, limits: Limits) -> Finding:
        clock = self.clock()
        before = clock.now()
        theirs = store.now()
        return clock_off(theirs - (before + (clock.now() - before) / 2), limits)

    def _examine(self, store: Store, limits: Limits, besides: Collection[Check]) -> Iterable[Finding]:
        yield ok(Check.REACHABLE, "the store answers")
        yield ok(Check.SCHEMA, "the schema is up to date")
        yield from store.examine(limits, besides=besides)
        now = store.now()
        workers, counted_lanes = store.workers(), store.lanes()
        lanes = [lane for lane in counted_lanes if not lane.is_misfit]
        alive = [worker for worker in workers if is_alive(worker, now)]
        yield workers_alive(alive, is_needed=bool(lanes) or store.next_due() is not None)
        yield workers_silent([worker for worker in workers if worker not in alive], now)
        yield leases_expired(store, now, limits)
        yield stuck(store, self.stuck_after(), limits)
        yield unhandled(counted_lanes, alive)
        yield waiting(lanes, now, limits)
        yield from depth(lanes, limits)
        yield from examine_recent(store, now, limits)
        if Check.JOBS_FAILED not in besides:
            yield failed(store.count(JobFilter(state=State.FAILED), by="code"))
        yield paused(store, now, limits)
        yield duties_late(self.duties(), now, limits)
        yield from services(store.services(), now, limits)
        yield service_names(store.service_names())
        yield cursors(store, now, limits)
        yield projection(store, now, limits)
        yield deliveries(store, has_smtp=self.has_smtp())
        yield policies_file(self.policies, self.names())


def _unreachable(error: StoreError) -> Finding:
    return problem(Check.REACHABLE, str(error), DAMAGED if isinstance(error, StoreDamaged) else AWAY)


def _wrong_schema(error: SchemaMismatch) -> Finding:
    return problem(
        Check.SCHEMA, str(error), "run 'mulligan migrate' with the newest version of mulligan that uses this database"
    )


def clock_off(off: timedelta, limits: Limits) -> Finding:
    if abs(off) < limits.clock:
        return ok(Check.CLOCK, "the clocks of the store and of this host agree")
    side = "ahead of" if off > timedelta(0) else "behind"
    found = f"the store's clock is {describe(abs(off))} {side} this machine's"
    remedy = "synchronise both clocks by NTP; the store's clock decides when a job is due and when a lease ends"
    return (problem if abs(off) >= FAR_OFF * limits.clock else warning)(Check.CLOCK, found, remedy)


def workers_alive(alive: Sequence[WorkerRecord], *, is_needed: bool) -> Finding:
    if alive:
        return ok(Check.WORKERS_ALIVE, f"{counted(len(alive), 'worker')} alive")
    found = "no worker is alive, and jobs are waiting" if is_needed else "no worker is alive"
    return (problem if is_needed else warning)(Check.WORKERS_ALIVE, found, "start one: mulligan worker MODULE:APP")


def workers_silent(silent: Sequence[WorkerRecord], now: datetime) -> Finding:
    if not silent:
        return ok(Check.WORKERS_SILENT, "no worker has stopped without signing off")
    named = [
        f"{worker.host}, process {worker.pid}, seen {relative(worker.seen_at or now, now)}, holds {worker.holds}"
        for worker in silent[:NAMED]
    ]
    return warning(
        Check.WORKERS_SILENT,
        f"{counted(len(silent), 'worker')} stopped without signing off: {'; '.join(named)}",
        "check its log and its host; other workers take its jobs back when the leases expire",
    )


def leases_expired(store: Store, now: datetime, limits: Limits) -> Finding:
    leases = [lease for lease in store.overdue(besides="", limit=MANY) if lease.until < now - limits.lease]
    if not leases:
        return ok(Check.LEASES_EXPIRED, "no expired lease waits to be taken back")
    return problem(
        Check.LEASES_EXPIRED,
        f"{counted(len(leases), 'job')} of lost workers not taken back: {_named(leases)}",
        "any live worker takes them back; if one is alive, check whether the duty is paused: mulligan duties",
    )


def stuck(store: Store, after: timedelta, limits: Limits) -> Finding:
    leases = store.stuck(after=after, limit=MANY)
    if not leases:
        return ok(Check.JOBS_STUCK, f"no job runs longer than {describe(after)} and its own timeout")
    found = (problem if len(leases) >= limits.stuck else warning)(
        Check.JOBS_STUCK,
        f"{counted(len(leases), 'job')} stuck, running longer than {describe(after)}: {_named(leases)}",
        "mulligan jobs stuck; then mulligan jobs process-stuck, or mulligan jobs retry ID",
    )
    return replace(found, value=len(leases), threshold=limits.stuck)


def _named(leases: Sequence[Lease]) -> str:
    return ", ".join(f"{lease.fence.id} ({lease.kind})" for lease in leases[:NAMED]) + ", …" * (len(leases) > NAMED)


def unhandled(lanes: Sequence[Lane], alive: Sequence[WorkerRecord]) -> Finding:
    # Another finding reports that no worker is alive.
    ready = [lane for lane in lanes if not lane.is_misfit]
    left = [lane for lane in ready if alive and not any(worker.takes(lane.queue, lane.kind) for worker in alive)]
    if left:
        return problem(
            Check.JOBS_UNHANDLED,
            f"no live worker takes these ready jobs: {_lanes(left)}",
            "start a worker that has the task and takes the queue, or cancel the jobs: mulligan jobs cancel ID",
        )
    if misfits := [lane for lane in lanes if lane.is_misfit]:
        return warning(
            Check.JOBS_UNHANDLED,
            f"workers returned these jobs because their arguments fit another version of the task: {_lanes(misfits)}",
            "start workers of the version that enqueued them; mulligan jobs explain ID says what does not fit",
        )
    return ok(Check.JOBS_UNHANDLED, "a live worker takes every ready job")


def _lanes(lanes: Sequence[Lane]) -> str:
    named = [f"{lane.number:,} of {lane.kind!r} in queue {lane.queue!r}" for lane in lanes]
    return "; ".join(named[:NAMED]) + "; …" * (len(named) > NAMED)


def waiting(lanes: Sequence[Lane], now: datetime, limits: Limits) -> Finding:
    number = sum(lane.number for lane in lanes)
    if not lanes:
        return ok(Check.JOBS_WAITING, "no ready job waits")
    oldest = min(lanes, key=lambda lane: lane.since)
    found = f"{counted(number, 'ready job')}, the oldest ({oldest.kind!r}) since {at(oldest.since, now)}"
    if now - oldest.since < limits.wait:
        return ok(Check.JOBS_WAITING, found)
    late = warning(Check.JOBS_WAITING, found, MORE_WORKERS)
    return replace(late, value=(now - oldest.since).total_seconds(), threshold=limits.wait.total_seconds())


def depth(lanes: Sequence[Lane], limits: Limits) -> list[Finding]:
    """A finding for each queue that is too deep."""
    queues = Counter[str]()
    for lane in lanes:
        queues[lane.queue] += lane.number
    deep = [(queue, number) for queue, number in queues.most_common(MOST_SUBJECTS) if number >= limits.depth]
    if not deep:
        return [ok(Check.JOBS_DEPTH, f"every queue has fewer than {limits.depth:,} ready jobs")]
    return [
        replace(
            warning(Check.JOBS_DEPTH, f"queue {queue!r} has {counted(number, 'ready job')}", MORE_WORKERS),
            subject=queue,
            value=number,
            threshold=limits.depth,
        )
        for queue, number in deep
    ]


def failed(counts: Counts) -> Finding:
    """`counts` are those of failed jobs by code."""
    if not counts.total:
        return ok(Check.JOBS_FAILED, "no job has failed")
    most = list(counts.groups.items())
    return warning(
        Check.JOBS_FAILED,
        f"{'at least ' if counts.at_least else ''}{counted(counts.total, 'job')} failed: "
        + ", ".join(f"{number:,} {code}" for code, number in most[:NAMED])
        + ", …" * (len(most) > NAMED),
        "mulligan jobs list --state failed; mulligan jobs explain ID shows why, mulligan jobs retry ID retries one",
    )


def paused(store: Store, now: datetime, limits: Limits) -> Finding:
    pauses = store.pauses()
    if not pauses:
        return ok(Check.DUTIES_PAUSED, "nothing is paused")
    forgotten = [pause for pause in pauses if pause.until is None and now - pause.since >= limits.pause]
    shown = forgotten or pauses
    found = [
        f"{pause.what} {pause.name} since {at(pause.since, now)}"
        + (f" by {pause.actor}" if pause.actor else "")
        + (f" until {at(pause.until, now)}" if pause.until else ", without an end")
        for pause in shown
    ]
    remedy = f"mulligan resume --{shown[0].what} {shlex.quote(shown[0].name)}"
    if forgotten:
        return problem(Check.DUTIES_PAUSED, f"paused for long, perhaps forgotten: {'; '.join(found)}", remedy)
    return warning(Check.DUTIES_PAUSED, f"paused: {'; '.join(found)}", remedy)


def duty_late(status: DutyStatus, now: datetime, limits: Limits) -> Finding:
    """Whether the live workers that do a duty have not done it for long."""
    at = status.last.at if status.last else None
    if at is None:
        return ok(Check.DUTIES_LATE, f"{status.name} has not run yet")
    found = f"{status.name} ran {relative(at, now)}"
    longest = max(limits.duty, LATE_INTERVALS * status.interval)
    # Other findings report pauses, and that no worker is alive.
    if status.paused or not status.workers or now - at < longest:
        return ok(Check.DUTIES_LATE, found)
    remedy = f"see the log of the workers for its error; run it here: mulligan duties run {status.name}"
    return warning(Check.DUTIES_LATE, found, remedy)


def duties_late(statuses: Sequence[DutyStatus], now: datetime, limits: Limits) -> Finding:
    late = [finding for status in statuses if (finding := duty_late(status, now, limits)).level is not Level.OK]
    if not late:
        return ok(Check.DUTIES_LATE, "no duty is late")
    found = "; ".join(finding.found for finding in late[:NAMED]) + "; …" * (len(late) > NAMED)
    return warning(Check.DUTIES_LATE, f"duties are late: {found}", late[0].remedy)


def services(records: Sequence[ServiceRecord], now: datetime, limits: Limits) -> list[Finding]:
    """A finding for each service in trouble."""
    troubled = [record for record in records if record.state != "closed" or record.is_failing or record.forced]
    if not troubled:
        return [ok(Check.SERVICES_TROUBLED, "no service is open, failing or forced")]
    troubled.sort(key=lambda record: (record.state == "closed", record.since or now))
    found = [_service(record, now, limits) for record in troubled[:MOST_SUBJECTS]]
    if more := len(troubled) - len(found):
        found[-1] = replace(found[-1], found=f"{found[-1].found}; and {counted(more, 'other service')}")
    return found


def _service(record: ServiceRecord, now: datetime, limits: Limits) -> Finding:
    lasted = now - (record.since or now) if record.state != "closed" else timedelta(0)
    found = (problem if lasted >= limits.outage else warning)(
        Check.SERVICES_TROUBLED, _troubled(record, now), _remedy(record)
    )
    return replace(found, subject=record.name, value=lasted.total_seconds(), threshold=limits.outage.total_seconds())


def _troubled(record: ServiceRecord, now: datetime) -> str:
    since = f" since {at(record.since, now)}" if record.since else ""
    if record.forced:
        why = f" because {quoted(record.reason)}" if record.reason else ""
        return f"service {record.name!r} is forced {record.forced} by {record.actor or 'unknown'}{since}{why}"
    if record.state == "closed":
        return f"service {record.name!r} is failing: {record.failures} of {record.calls} calls, so retries wait"
    return f"service {record.name!r} is {record.state.replace('_', '-')}{since}"


def _remedy(record: ServiceRecord) -> str:
    name = shlex.quote(record.name)
    if record.forced:
        return f"mulligan services auto {name}, to let its calls decide again"
    return f"mulligan services show {name}; fix the service: its jobs wait until then and continue by themselves"


def service_names(families: Sequence[Family]) -> Finding:
    near = [family for family in families if family.names >= NEARLY * family.most]
    if not near:
        return ok(Check.SERVICES_NAMES, "computed service names are below their limits")
    found = [f"{family.names:,} of {family.most:,} names of {family.pattern!r}" for family in near]
    full = [family.pattern for family in near if family.names >= family.most]
    then = f"; new names share service {full[0]!r}, so its breaker holds the jobs of all of them" if full else ""
    return warning(
        Check.SERVICES_NAMES,
        f"computed service names: {'; '.join(found[:NAMED])}{'; …' * (len(found) > NAMED)}{then}",
        "name services by what fails together, a host and not a URL, or allow more: Service(…, most=…); for '*' set "
        "MULLIGAN_CIRCUIT_MOST_NAMES. Unused names are deleted after a day",
    )


def cursors(store: Store, now: datetime, limits: Limits) -> Finding:
    last = store.last_position()
    behind = [
        cursor for cursor in store.cursors() if cursor.position < last and now - cursor.updated_at >= limits.cursor
    ]
    if not behind:
        return ok(Check.LOG_CURSORS, "no reader of the event log is behind")
    return warning(
        Check.LOG_CURSORS,
        f"readers of the event log have stopped: {listed([cursor.name for cursor in behind])}, the first since "
        f"{at(behind[0].updated_at, now)}; events that they have not read are not deleted",
        f"start the reader; if it is gone for good: mulligan projections drop {behind[0].name}",
    )


def projection(store: Store, now: datetime, limits: Limits) -> Finding:
    status = store.projection_status()
    if status.missed_at is not None and now - status.missed_at < limits.cursor:
        return warning(
            Check.LOG_PROJECTION,
            f"events were deleted before they were counted in failure groups and statistics, found "
            f"{at(status.missed_at, now)}",
            "their numbers are too low for that time; keep jobs longer than workers are down: "
            "MULLIGAN_RETENTION_SUCCEEDED",
        )
    if status.lag < limits.projection:
        return ok(Check.LOG_PROJECTION, "failure groups and statistics are up to date")
    return warning(
        Check.LOG_PROJECTION,
        f"failure groups and statistics are {describe(status.lag)} behind the event log",
        "see that a worker of this version runs and the duty is not paused: mulligan duties; or run: "
        "mulligan duties run project",
    )


def deliveries(store: Store, *, has_smtp: bool) -> Finding:
    """Mails without a mail server, and what was not delivered within a day."""
    by_mail = [each for each in store.subscriptions(is_enabled=True) if each.channel is Channel.EMAIL]
    if by_mail and not has_smtp:
        return warning(
            Check.DELIVERIES,
            f"{counted(len(by_mail), 'subscription')} by mail, and no mail server: mails are skipped",
            "set MULLIGAN_SMTP_URL for the workers and for this command; then mulligan deliveries redeliver ID",
        )
    failed = [each for each in store.count_undelivered() if each.state is DeliveryState.FAILED]
    if not failed:
        return ok(Check.DELIVERIES, "no mail and no webhook failed within a day")
    found = "; ".join(f"{each.number:,} by {each.channel}, such as: {each.reason}" for each in failed)
    return warning(
        Check.DELIVERIES,
        f"failed within a day: {found}",
        "mulligan deliveries list --state failed; fix the receiver, then mulligan deliveries redeliver ID",
    )


def policies_file(file: PolicyFile, names: Names) -> Finding:
    """`names` are those of the app. Without kinds, the names in the file cannot be compared."""
    if file.path is None:
        return ok(Check.POLICIES_FILE, "no policies file is configured")
    file.look()
    if file.problem is not None:
        return problem(
            Check.POLICIES_FILE,
            str(file.problem),
            "fix it, then run: mulligan policies check; workers keep the previous version, but none can start",
        )
    if found := list(find_unknown_names(file.current, names)):
        (what, (first, *_)), *_ = found
        named = ", and ".join(f"{one} that this app does not have: {listed(missing)}" for one, missing in found)
        return warning(
            Check.POLICIES_FILE,
            f"{file.path} names {named}",
            f"{did_you_mean(first, getattr(names, what))}see its names: mulligan policies show",
        )
    return ok(Check.POLICIES_FILE, f"version {file.current.version} of {file.path} can be used")
