"""Services: read their stored states, let `mulligan.service` decide, and write the result, within the transaction of a
claim, a settle or a manual change."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from mulligan.records.job import Lease
from mulligan.service.allowance import Allowance, claim_allowance, fails_fast, holds, retry_allowance, stays_refused
from mulligan.service.breaker import begin_probing, force, hold, is_routine, record_calls
from mulligan.service.config import LONGEST_WINDOW, Service, ServiceBook
from mulligan.service.records import PROBE_KIND, Demand, ServiceChange, ServiceRecord, ServiceRequest
from mulligan.service.state import (
    BreakerState,
    Change,
    Forced,
    ServiceState,
    Transition,
    decode_state,
    encode_state,
    is_milestone,
    is_restricted,
)
from mulligan.service.window import CallCounts, Figures, ServiceCall, compute_figures, decode_counts, encode_counts
from mulligan.store.events import event_values, is_done
from mulligan.store.messages import Claim, Outcome
from mulligan.store.rows import Record, from_time, to_duration, to_json
from mulligan.store.service_calls import ServiceReport, collect_reports, merge_reports
from mulligan.store.service_names import ServiceNames
from mulligan.store.session import Session, Statements

# Later than any real time: the service is not to be asked before an operator changes it.
FOREVER = 2**62
COUNTS_KEPT = 2 * to_duration(LONGEST_WINDOW)
SERVICES_KEPT = 12 * COUNTS_KEPT
# The time of counts is stored by the hour: an indexed column that changes with every settle would be expensive.
COUNTS_AGE = to_duration(LONGEST_WINDOW)
BUDGET = "budget/"
# Most jobs of a lane that are counted.
MANY = 1_000


@dataclass(frozen=True, slots=True)
class Grant:
    """What a claim may take of one restricted service."""

    before: ServiceState
    transition: Transition
    service: Service
    allowed: Allowance
    fails_fast: bool = False

    @property
    def name(self) -> str:
        return self.before.name

    @property
    def again_in(self) -> int | None:
        """Microseconds until there may be more to take."""
        return self.allowed.again_in

    @property
    def values(self) -> dict[str, Any]:
        """The grant as the claim binds it. A half-open service with a `probe=` is probed by that alone until it
        succeeds. Probes belong to the epoch that begins with them."""
        state = self.transition.state
        is_probed = state.breaker is BreakerState.HALF_OPEN and not state.is_checked
        probes_only = is_probed and self.service.probe is not None
        kind = PROBE_KIND if probes_only else None
        return {"service": self.name, "kind": kind, "number": self.allowed.number, "epoch": state.epoch}


class ServiceUpdate(NamedTuple):
    """The states of the reported services after a settle, and their changes."""

    states: Mapping[str, ServiceState] = {}
    changes: Sequence[ServiceChange] = ()

    @property
    def not_closed(self) -> dict[str, int]:
        """The epochs of the services that are not closed."""
        return {name: one.epoch for name, one in self.states.items() if one.breaker is not BreakerState.CLOSED}

    @property
    def breakers(self) -> dict[str, str]:
        return {name: str(one.breaker) for name, one in self.states.items()}


class ServiceOperations:
    def __init__(self, sql: Statements, book: Callable[[], ServiceBook]) -> None:
        self._book = book
        self.names = ServiceNames(sql, book)

    @property
    def has_rates(self) -> bool:
        """Whether a service without a stored row may be restricted by a rate."""
        return self._book().has_rates

    # Claim

    def compute_grants(self, session: Session, claim: Claim, names: Sequence[str]) -> list[Grant]:
        """Return what this claim may take of the restricted ones among these services."""
        rows = session.rows("services_asked", names=to_json(list(names)), now=session.moment())
        new = self._find_newly_rated(session, names)
        # Lock in one statement, read and count in the next: in a single one the count would be older than the lock, and
        # two claims would take one permit.
        states = self._lock(session, [*new, *(row["name"] for row in rows)])
        return [self._compute_grant(session, state, claim.limit) for state in states.values()]

    def _find_newly_rated(self, session: Session, names: Iterable[str]) -> set[str]:
        """Return the services with a rate whose row does not say so yet."""
        rated = [name for name in names if self._book().of(name).rate is not None]
        if not rated:
            return set()
        rows = session.rows("services_named", names=to_json(rated))
        return set(rated) - {row["name"] for row in rows if row["is_restricted"]}

    def _compute_grant(self, session: Session, before: ServiceState, wanted: int) -> Grant:
        service = self._book().of(before.name)
        transition = begin_probing(service, before, now=session.moment())
        state = transition.state
        if fails_fast(service, state, now=session.moment()):
            return Grant(before, transition, service, Allowance(wanted, state), fails_fast=True)
        used = 0
        if state.breaker is BreakerState.HALF_OPEN:
            used = self._count(session, "permits_used", service=before.name, epoch=state.epoch)
        allowed = claim_allowance(service, state, running=used, wanted=wanted, now=session.moment())
        return Grant(before, transition, service, allowed)

    def record_taken(self, session: Session, grants: Sequence[Grant], leases: Sequence[Lease]) -> None:
        """Store the states after a claim, with what it took of each grant, and mark its leases."""
        numbers = Counter(lease.service for lease in leases)
        for grant in grants:
            unused = 0 if grant.fails_fast else grant.allowed.number - numbers[grant.name]
            left = grant.allowed.without(unused).state
            if left == grant.before and not is_restricted(grant.service, left):
                # Its rate was removed from the configuration.
                session.rows("service_write", **_service_values(grant.service, left, session.moment()))
            self._write(session, grant.service, grant.before, Transition(left, grant.transition.changes))
            for lease in leases:
                if lease.service == grant.name:
                    lease.is_refused = grant.fails_fast
                    lease.is_probe = left.breaker is BreakerState.HALF_OPEN

    def mark_refused(self, session: Session, leases: Sequence[Lease]) -> None:
        """Mark leases of a repeated claim as the first reply did."""
        states = self._load_states(session, sorted({lease.service for lease in leases if lease.service}))
        for lease in leases:
            if state := states.get(lease.service):
                service = self._book().of(lease.service)
                lease.is_refused = stays_refused(service, state, epoch=lease.service_epoch)

    # Settle

    def record_calls(self, session: Session, settled: Sequence[Outcome]) -> ServiceUpdate:
        """Record what these attempts report about services."""
        reports = collect_reports(settled)
        if not reports:
            return ServiceUpdate()
        return self._record(session, reports, settled[0].reported_by)

    def _record(self, session: Session, reports: Mapping[str, ServiceReport], worker: str) -> ServiceUpdate:
        reports = merge_reports(reports, self._find_shared(session, reports))
        names, changes = sorted(reports), []
        states = self._load_states(session, names)
        calls = {name: reports[name].calls_in(states[name], session.moment()) for name in names}
        self._add_counts(session, states, calls, worker)
        changing = [name for name in names if reports[name].holds or not is_routine(states[name], calls[name])]
        for name, before in self._lock(session, changing).items():
            transition = self._update_state(session, before, reports[name], calls[name])
            states[name] = transition.state
            changes += _service_changes(name, transition)
        return ServiceUpdate(states, changes)

    def _find_shared(self, session: Session, reports: Mapping[str, ServiceReport]) -> dict[str, str]:
        """Tasks may report calls of any service: when there are too many names, new names share one."""
        foreign = [name for name, report in reports.items() if report.is_foreign]
        if not foreign:
            return {}
        rows = session.rows("services_unknown", names=to_json(foreign))
        return session.play(self.names.find_shared([row["name"] for row in rows], session.moment()))

    def _load_states(self, session: Session, names: Sequence[str]) -> dict[str, ServiceState]:
        if not names:
            return {}
        rows = session.rows("services_named", names=to_json(list(names)))
        return {name: ServiceState.initial(name) for name in names} | {row["name"]: _to_state(row) for row in rows}

    def _add_counts(
        self,
        session: Session,
        states: Mapping[str, ServiceState],
        calls: Mapping[str, Sequence[ServiceCall]],
        worker: str,
    ) -> None:
        current = {name: [call for call in made if call.epoch == states[name].epoch] for name, made in calls.items()}
        names = [name for name, made in current.items() if made]
        if not names:
            return
        session.rows("call_counts_lock", worker=worker)
        rows = session.rows("call_counts_of_worker", worker=worker, services=to_json(names))
        stored = {row["service"]: _to_counts(row["tally"]) for row in rows}
        # Counts of a later epoch are older than the row of the service, which was deleted since: they start again.
        stored = {name: counts for name, counts in stored.items() if counts.epoch <= states[name].epoch}
        added = {name: stored.get(name, CallCounts()).add(current[name], self._book().of(name)) for name in names}
        news = [{"service": name, "tally": encode_counts(counts)} for name, counts in added.items()]
        hour = session.moment() // COUNTS_AGE * COUNTS_AGE
        session.rows("call_counts_write", worker=worker, tallies=to_json(news), now=hour)

    def _update_state(
        self, session: Session, before: ServiceState, report: ServiceReport, calls: Sequence[ServiceCall]
    ) -> Transition:
        service = self._book().of(before.name)
        figures = self._compute_figures(session, service, before)
        is_awaited = self._is_awaited(session, before, calls)
        transition = record_calls(service, before, figures, calls, is_awaited=is_awaited, now=session.moment())
        for wanted in report.holds:
            more = hold(service, transition.state, figures, wanted.length, epoch=wanted.epoch, now=session.moment())
            transition = Transition(more.state, (*transition.changes, *more.changes))
        if transition.state.epoch != before.epoch and is_milestone(transition.state.probes_failed):
            transition = self._add_waiting(session, transition)
        self._write(session, service, before, transition)
        return transition

    def _is_awaited(self, session: Session, before: ServiceState, calls: Sequence[ServiceCall]) -> bool:
        """Whether jobs wait for a service whose health check has just succeeded."""
        is_checked = any(call.is_check and call.ok and call.epoch == before.epoch for call in calls)
        return is_checked and self._count(session, "service_waiting", service=before.name, limit=1) > 0

    def _add_waiting(self, session: Session, transition: Transition) -> Transition:
        """Add to the changes how many jobs wait for the service, counted up to a limit."""
        waiting = {"held": self._count(session, "service_waiting", service=transition.state.name, limit=MANY)}
        changes = tuple(Change(change.type, change.data | waiting) for change in transition.changes)
        return Transition(transition.state, changes)

    def _lock(self, session: Session, names: Sequence[str]) -> dict[str, ServiceState]:
        """Return their states, locked until the transaction ends."""
        if not names:
            return {}
        session.rows("services_lock", names=to_json(list(names)))
        return self._load_states(session, sorted(names))

    def _compute_figures(self, session: Session, service: Service, state: ServiceState) -> Figures:
        counts = [_to_counts(row["tally"]) for row in session.rows("call_counts_of_service", service=state.name)]
        return compute_figures(
            service, counts, epoch=state.epoch, failing_since=state.failing_since, now=session.moment()
        )

    # Promote

    def find_retry_allowances(self, session: Session) -> list[tuple[str, int | None]]:
        """Return the gates of services whose retries wait for a budget, and how many may pass; None: all of them."""
        rows = session.rows("services_with_gates")
        allowances = []
        for name, state in self._lock(session, [row["name"] for row in rows]).items():
            service = self._book().of(name)
            figures = self._compute_figures(session, service, state)
            in_flight = self._count(session, "retries_in_flight", service=name)
            number = retry_allowance(service, state, figures, in_flight=in_flight)
            if number is None or number > 0:
                allowances.append((BUDGET + name, number))
        return allowances

    def count_claimable(self, session: Session, names: Iterable[str], wanted: int) -> dict[str, int]:
        """Return how many jobs of the restricted ones among these services could be claimed now. Takes nothing."""
        rows = session.rows("services_restricted", names=to_json(sorted(names)))
        grants = [self._compute_grant(session, _to_state(row), wanted) for row in rows]
        return {grant.name: 0 if grant.values["kind"] else grant.allowed.number for grant in grants}

    def find_holding(self, session: Session, names: Iterable[str]) -> set[str]:
        """Return those of these services that hold their jobs."""
        rows = session.rows("services_resting", names=to_json(sorted(names)), now=session.moment())
        resting = {row["name"] for row in rows}
        # In an outage of many services that is most of them: their states need not be read.
        rows = session.rows("services_restricted", names=to_json(sorted({*names} - resting)))
        states = [_to_state(row) for row in rows]
        return resting | {one.name for one in states if holds(self._book().of(one.name), one)}

    def find_askable(self, session: Session, names: Iterable[str]) -> set[str]:
        """Return those of these services that are restricted and may be asked now."""
        rows = session.rows("services_asked", names=to_json(sorted(names)), now=session.moment())
        return {row["name"] for row in rows}

    def find_probeable(self, session: Session, names: Iterable[str], limit: int) -> set[str]:
        """Return up to `limit` of these services that a job may probe now. Takes nothing."""
        rows = session.rows("services_restricted", names=to_json(sorted(names)))
        found: set[str] = set()
        for row in rows:
            grant = self._compute_grant(session, _to_state(row), 1)
            if grant.values["kind"] is None and grant.allowed.number > 0:
                found.add(grant.name)
            if len(found) >= limit:
                break
        return found

    # Manual changes and reading

    def force(self, session: Session, request: ServiceRequest) -> ServiceRecord:
        if is_done(session, request.id):
            return self._to_record(session, self._load_states(session, [request.name])[request.name])
        service = self._book().of(request.name)
        before = self._lock(session, [request.name])[request.name]
        to = None if request.to is None else Forced(request.to)
        transition = force(before, to, actor=request.actor, reason=request.reason, now=session.moment())
        self._write(session, service, before, transition, request=request.id, actor=request.actor)
        return self._to_record(session, transition.state)

    def list_all(self, session: Session, names: Sequence[str] | None = None) -> list[ServiceRecord]:
        if names is None:
            rows = session.rows("services_listed")
        else:
            rows = session.rows("services_named", names=to_json(list(names)))
        return [self._to_record(session, _to_state(row)) for row in rows]

    def list_demands(self, session: Session, limit: int) -> list[Demand]:
        rows = session.rows("demands", limit=limit)
        return [Demand(row["service"], row["ready"], row["parked"]) for row in rows]

    def _to_record(self, session: Session, state: ServiceState) -> ServiceRecord:
        figures = self._compute_figures(session, self._book().of(state.name), state)
        until = state.held_until(session.moment())
        # An outage is one, however often the service was probed.
        outage = state.outage_since if state.breaker is BreakerState.OPEN else None
        since = state.since if outage is None else outage
        return ServiceRecord(
            name=state.name,
            state=str(state.breaker),
            epoch=state.epoch,
            since=from_time(since) if since else None,
            open_until=None if until is None else from_time(until),
            forced=state.forced,
            actor=state.forced_by,
            reason=state.forced_because,
            is_failing=state.is_failing,
            pace=None if state.pace is None else state.pace.rate,
            rate_before=state.rate_before,
            calls=figures.calls,
            failures=figures.failures,
            rate=figures.rate,
            firsts=figures.firsts,
            retries=figures.retries,
            probes_succeeded=state.probes_succeeded,
            is_checked=state.is_checked,
            trouble=state.trouble,
        )

    def forget(self, session: Session) -> None:
        """Delete counts, services and names that no longer matter."""
        session.rows("call_counts_forget", kept=COUNTS_KEPT)
        session.rows("services_forget", kept=SERVICES_KEPT)
        self.names.forget(session)

    def _write(
        self,
        session: Session,
        service: Service,
        before: ServiceState,
        transition: Transition,
        *,
        request: str | None = None,
        actor: str | None = None,
    ) -> None:
        if transition.state != before:
            session.rows("service_write", **_service_values(service, transition.state, session.moment()))
        for change in transition.changes:
            data = {"service": before.name, **change.data}
            event = event_values(change.type, request=request, actor=actor, data=data)
            session.rows("event", event, now=session.moment())

    def _count(self, session: Session, statement: str, **values: Any) -> int:
        rows = session.rows(statement, **values)
        return int(rows[0]["number"])


def _service_values(service: Service, state: ServiceState, now: int) -> dict[str, Any]:
    ask_at, hold = 0, 0
    if state.breaker is BreakerState.OPEN and service.mode != "fail_fast":
        ask_at, hold = (FOREVER, FOREVER) if state.forced else (state.open_until, state.hold)
    return {
        "name": state.name,
        "standing": encode_state(state),
        "epoch": state.epoch,
        "is_restricted": is_restricted(service, state),
        "ask_at": ask_at,
        "hold": hold,
        "is_failing": state.is_failing and service.budget is not None,
        "now": now,
    }


def list_changes(grants: Iterable[Grant]) -> list[ServiceChange]:
    return [change for grant in grants for change in _service_changes(grant.name, grant.transition)]


def _service_changes(name: str, transition: Transition) -> list[ServiceChange]:
    return [ServiceChange(name, change.type, change.data) for change in transition.changes]


def _to_state(row: Record) -> ServiceState:
    """A damaged row counts as a closed service in its epoch."""
    plain = ServiceState(name=row["name"], epoch=row["epoch"])
    try:
        found = decode_state(row["standing"])
    except (msgspec.DecodeError, RecursionError):
        return plain
    return found if (found.name, found.epoch) == (plain.name, plain.epoch) else plain


def _to_counts(text: str) -> CallCounts:
    try:
        return decode_counts(text)
    except (msgspec.DecodeError, RecursionError):
        return CallCounts()
