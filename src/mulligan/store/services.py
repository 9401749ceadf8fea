"""What a store does about services, as statements: the same for every store.

The machine in `failure.service` decides. Here its values are read, handed to it and written, within the transaction of
a claim, a settle or a move by hand.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from mulligan.records.job import Lease
from mulligan.service import (
    Allowance,
    BreakerState,
    CallCounts,
    Change,
    Figures,
    Forced,
    Service,
    ServiceBook,
    ServiceCall,
    ServiceState,
    Transition,
    begin_probing,
    claim_allowance,
    compute_figures,
    fails_fast,
    force,
    hold,
    holds,
    is_milestone,
    is_restricted,
    is_routine,
    record_calls,
    retry_allowance,
    stays_refused,
)
from mulligan.service.config import LONGEST_WINDOW
from mulligan.service.records import PROBE_KIND, Demand, ServiceChange, ServiceRecord, ServiceRequest
from mulligan.service.state import decode_state, encode_state
from mulligan.service.window import decode_counts, encode_counts
from mulligan.store.idempotency import is_done
from mulligan.store.messages import Claim, Outcome
from mulligan.store.rows import Record, from_time, to_duration, to_json
from mulligan.store.service_calls import Hearsay, hearsay, merged
from mulligan.store.service_names import ServiceNames
from mulligan.store.session import Now, Session
from mulligan.store.statements import Statements
from mulligan.store.values import event_values

# As far ahead as a number goes: nobody is to ask before somebody changes it.
FOREVER = 2**62
TALLIES_KEPT = 2 * to_duration(LONGEST_WINDOW)
SERVICES_KEPT = 12 * TALLIES_KEPT
# Only the hour is kept: a column of an index that changes with every settle would be dear.
TALLY_AGES = to_duration(LONGEST_WINDOW)
BUDGET = "budget/"
# Jobs of a lane that are counted.
MANY = 1_000


@dataclass(frozen=True, slots=True)
class Grant:
    """What a claim may take of one service that is not simply closed."""

    before: ServiceState
    turn: Transition
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
        """As the claim reads it. Of a service with a probe of its own, nothing else is tried before that succeeded; and
        probes are of the epoch that begins with them."""
        standing = self.turn.state
        probes_only = standing.breaker is BreakerState.HALF_OPEN and self.service.probe is not None
        kind = PROBE_KIND if probes_only else None
        return {"service": self.name, "kind": kind, "number": self.allowed.number, "epoch": standing.epoch}


class ServiceUpdate(NamedTuple):
    """After a settle: how the services stand that were heard of, and what changed."""

    standings: Mapping[str, ServiceState] = {}
    changes: Sequence[ServiceChange] = ()

    @property
    def held(self) -> dict[str, int]:
        """The epochs of those that are not closed."""
        return {name: one.epoch for name, one in self.standings.items() if one.breaker is not BreakerState.CLOSED}


class ServiceOperations:
    def __init__(self, sql: Statements, book: Callable[[], ServiceBook]) -> None:
        self._book = book
        self.names = ServiceNames(sql, book)

    @property
    def has_rates(self) -> bool:
        """Whether a service may have to be asked of which nothing is stored yet."""
        return self._book().has_rates

    # Claim

    def grants(self, session: Session, claim: Claim, names: Sequence[str], now: int) -> list[Grant]:
        """What this claim may take of the services of ready jobs that are not simply closed and can be asked now."""
        rows = session.rows("services_asked", names=to_json(list(names)), now=now)
        new = self._newly_rated(session, names)
        # Locked first, read and counted then: in one statement the count would be older than the lock, and two claims
        # would take one permit.
        asked = self._locked(session, [*new, *(row["name"] for row in rows)])
        grants = []
        for standing in asked.values():
            grants += [self._grant(session, standing, claim.limit, now)]
        return grants

    def _newly_rated(self, session: Session, names: Iterable[str]) -> set[str]:
        """Those with a rate of which no row says so yet."""
        rated = [name for name in names if self._book().of(name).rate is not None]
        if not rated:
            return set()
        rows = session.rows("services_named", names=to_json(rated))
        return set(rated) - {row["name"] for row in rows if row["is_restricted"]}

    def _grant(self, session: Session, before: ServiceState, wanted: int, now: int) -> Grant:
        service = self._book().of(before.name)
        turn = begin_probing(service, before, now=now)
        if fails_fast(service, turn.state, now=now):
            return Grant(before, turn, service, Allowance(wanted, turn.state), fails_fast=True)
        used = 0
        if turn.state.breaker is BreakerState.HALF_OPEN:
            used = self._number(session, "permits_used", service=before.name, epoch=turn.state.epoch)
        return Grant(before, turn, service, claim_allowance(service, turn.state, running=used, wanted=wanted, now=now))

    def taken(self, session: Session, grants: Sequence[Grant], leases: Sequence[Lease], now: int) -> None:
        """Keep what became of the services, and of what was granted."""
        numbers = Counter(lease.service for lease in leases)
        for grant in grants:
            unused = 0 if grant.fails_fast else grant.allowed.number - numbers[grant.name]
            left = grant.allowed.without(unused).state
            if left == grant.before and not is_restricted(grant.service, left):
                # It had a rate, and has none any more.
                session.rows("service_write", **_values(grant.service, left, now))
            self._write(session, grant.service, grant.before, Transition(left, grant.turn.changes), now)
            for lease in leases:
                if lease.service == grant.name:
                    lease.is_refused = grant.fails_fast
                    lease.is_probe = left.breaker is BreakerState.HALF_OPEN

    def recalled(self, session: Session, leases: Sequence[Lease]) -> None:
        """Leases whose claim is told once more: its reply was lost."""
        known = self._known(session, sorted({lease.service for lease in leases if lease.service}))
        for lease in leases:
            if standing := known.get(lease.service):
                service = self._book().of(lease.service)
                lease.is_refused = stays_refused(service, standing, epoch=lease.service_epoch)

    # Settle

    def record_calls(self, session: Session, settled: Sequence[Outcome], now: Now) -> ServiceUpdate:
        """What these attempts tell of their services."""
        heard = hearsay(settled)
        if not heard:
            return ServiceUpdate()
        time = session.moment(now)
        return self._heard(session, heard, settled[0].teller, time)

    def _heard(self, session: Session, heard: Mapping[str, Hearsay], worker: str, now: int) -> ServiceUpdate:
        heard = merged(heard, self._shared(session, heard, now))
        names, changes = sorted(heard), []
        known = self._known(session, names)
        calls = {name: heard[name].calls_in(known[name], now) for name in names}
        self._tally(session, known, calls, worker, now)
        loud = [name for name in names if heard[name].quiet or not is_routine(known[name], calls[name])]
        for name, before in self._locked(session, loud).items():
            turn = self._hear(session, before, heard[name], calls[name], now)
            known[name] = turn.state
            changes += _changes(name, turn)
        return ServiceUpdate(known, changes)

    def _shared(self, session: Session, heard: Mapping[str, Hearsay], now: int) -> dict[str, str]:
        """Tasks may report calls of any service: of too many names, those that are new share one."""
        reported = [name for name, hearsay in heard.items() if hearsay.is_reported]
        if not reported:
            return {}
        rows = session.rows("services_unheard", names=to_json(reported))
        return session.play(self.names.find_shared([row["name"] for row in rows], now))

    def _known(self, session: Session, names: Sequence[str]) -> dict[str, ServiceState]:
        if not names:
            return {}
        rows = session.rows("services_named", names=to_json(list(names)))
        return {name: ServiceState.initial(name) for name in names} | {row["name"]: _standing(row) for row in rows}

    def _tally(
        self,
        session: Session,
        known: Mapping[str, ServiceState],
        calls: Mapping[str, Sequence[ServiceCall]],
        worker: str,
        now: int,
    ) -> None:
        current = {name: [call for call in heard if call.epoch == known[name].epoch] for name, heard in calls.items()}
        names = [name for name, heard in current.items() if heard]
        if not names:
            return
        session.rows("tallies_lock", worker=worker)
        rows = session.rows("tallies_by", worker=worker, services=to_json(names))
        # One of a later epoch is of before the service was forgotten, and would hear nothing any more.
        mine = {
            row["service"]: tally
            for row in rows
            if (tally := _tally(row["tally"])).epoch <= known[row["service"]].epoch
        }
        news = [
            {"service": name, "tally": encode_counts(mine.get(name, CallCounts()).add(heard, self._book().of(name)))}
            for name in names
            for heard in [current[name]]
        ]
        session.rows("tallies_write", worker=worker, tallies=to_json(news), now=now - now % TALLY_AGES)

    def _hear(
        self, session: Session, before: ServiceState, hearsay: Hearsay, calls: Sequence[ServiceCall], now: int
    ) -> Transition:
        service = self._book().of(before.name)
        found = self._figures(session, service, before, now)
        turn = record_calls(service, before, found, calls, now=now)
        for quiet in hearsay.quiet:
            more = hold(service, turn.state, found, quiet.length, epoch=quiet.epoch, now=now)
            turn = Transition(more.state, (*turn.changes, *more.changes))
        if turn.state.epoch != before.epoch and is_milestone(turn.state.probes_failed):
            turn = self._reported(session, turn)
        self._write(session, service, before, turn, now)
        return turn

    def _reported(self, session: Session, turn: Transition) -> Transition:
        """With how many jobs wait, as far as they are counted."""
        waiting = self._number(session, "service_held", service=turn.state.name, limit=MANY)
        held = {"held": waiting}
        return Transition(turn.state, tuple(Change(change.type, change.data | held) for change in turn.changes))

    def _locked(self, session: Session, names: Sequence[str]) -> dict[str, ServiceState]:
        """How they stand, and nobody else changes that before this transaction ends."""
        if not names:
            return {}
        session.rows("services_lock", names=to_json(list(names)))
        return self._known(session, sorted(names))

    def _figures(self, session: Session, service: Service, standing: ServiceState, now: int) -> Figures:
        rows = session.rows("tallies_of", service=standing.name)
        found = [_tally(row["tally"]) for row in rows]
        return compute_figures(service, found, epoch=standing.epoch, failing_since=standing.failing_since, now=now)

    # The door

    def admitted(self, session: Session, now: int) -> list[tuple[str, int | None]]:
        """The gates of services whose retries wait for their budget, and how many may pass; None: all of them."""
        rows = session.rows("services_parked")
        admitted = []
        for name, standing in self._locked(session, [row["name"] for row in rows]).items():
            service = self._book().of(name)
            found = self._figures(session, service, standing, now)
            in_flight = self._number(session, "retries_in_flight", service=name)
            number = retry_allowance(service, standing, found, in_flight=in_flight)
            if number is None or number > 0:
                admitted.append((BUDGET + name, number))
        return admitted

    def barred(self, session: Session, names: Iterable[str], wanted: int, now: int) -> dict[str, int]:
        """How much of those among these services that are not simply closed could be claimed now. Nothing is taken."""
        rows = session.rows("services_barred", names=to_json(sorted(names)))
        allowed = {}
        for row in rows:
            grant = self._grant(session, _standing(row), wanted, now)
            allowed[grant.name] = 0 if grant.values["kind"] else grant.allowed.number
        return allowed

    def held(self, session: Session, names: Iterable[str], now: int) -> set[str]:
        """Those among these services that hold their jobs."""
        rows = session.rows("services_resting", names=to_json(sorted(names)), now=now)
        resting = {row["name"] for row in rows}
        # Most of them, in an outage of many: nothing more of them need be read.
        rows = session.rows("services_barred", names=to_json(sorted({*names} - resting)))
        standings = [_standing(row) for row in rows]
        return resting | {one.name for one in standings if holds(self._book().of(one.name), one)}

    def asked(self, session: Session, names: Iterable[str], now: int) -> set[str]:
        """Those among these services that are not simply closed and whose time to be asked has come."""
        rows = session.rows("services_asked", names=to_json(sorted(names)), now=now)
        return {row["name"] for row in rows}

    def probed(self, session: Session, names: Iterable[str], limit: int, now: int) -> set[str]:
        """Some of those services of which a job may be tried now, as a probe. Nothing is taken."""
        rows = session.rows("services_barred", names=to_json(sorted(names)))
        found: set[str] = set()
        for row in rows:
            grant = self._grant(session, _standing(row), 1, now)
            if grant.values["kind"] is None and grant.allowed.number > 0:
                found.add(grant.name)
            if len(found) >= limit:
                break
        return found

    # By hand

    def force(self, session: Session, request: ServiceRequest, given: Now) -> ServiceRecord:
        now = session.moment(given)
        if is_done(session, request.id):
            return self._of(session, request.name, now)
        service = self._book().of(request.name)
        before = self._locked(session, [request.name])[request.name]
        to = None if request.to is None else Forced(request.to)
        turn = force(before, to, actor=request.actor, reason=request.reason, now=now)
        self._write(session, service, before, turn, now, request=request.id, actor=request.actor)
        return self._record(session, turn.state, now)

    def _of(self, session: Session, name: str, now: int) -> ServiceRecord:
        known = self._known(session, [name])
        return self._record(session, known[name], now)

    def listed(self, session: Session, given: Now, names: Sequence[str] | None = None) -> list[ServiceRecord]:
        now = session.moment(given)
        if names is None:
            rows = session.rows("services_listed")
        else:
            rows = session.rows("services_named", names=to_json(list(names)))
        found = []
        for row in rows:
            found += [self._record(session, _standing(row), now)]
        return found

    def demands(self, session: Session, limit: int) -> list[Demand]:
        rows = session.rows("demands", limit=limit)
        return [Demand(row["service"], row["ready"], row["parked"]) for row in rows]

    def _record(self, session: Session, standing: ServiceState, now: int) -> ServiceRecord:
        found = self._figures(session, self._book().of(standing.name), standing, now)
        until = standing.held_until(now)
        # For people an outage is one, however often it was probed.
        outage = standing.outage_since if standing.breaker is BreakerState.OPEN else None
        since = standing.since if outage is None else outage
        return ServiceRecord(
            name=standing.name,
            state=str(standing.breaker),
            epoch=standing.epoch,
            since=from_time(since) if since else None,
            open_until=None if until is None else from_time(until),
            forced=standing.forced,
            actor=standing.forced_by,
            reason=standing.forced_because,
            is_failing=standing.is_failing,
            pace=None if standing.pace is None else standing.pace.rate,
            rate_before=standing.rate_before,
            calls=found.calls,
            failures=found.failures,
            rate=found.rate,
            firsts=found.firsts,
            retries=found.retries,
            probes_succeeded=standing.probes_succeeded,
            trouble=standing.trouble,
        )

    def forget(self, session: Session, now: int | None) -> None:
        """What says nothing any more."""
        session.rows("tallies_forget", now=now, kept=TALLIES_KEPT)
        session.rows("services_forget", now=now, kept=SERVICES_KEPT)
        self.names.forget(session, now)

    # All of them

    def _write(
        self,
        session: Session,
        service: Service,
        before: ServiceState,
        turn: Transition,
        now: int,
        *,
        request: str | None = None,
        actor: str | None = None,
    ) -> None:
        if turn.state != before:
            session.rows("service_write", **_values(service, turn.state, now))
        for change in turn.changes:
            session.rows("event", **_event(before.name, change, now, request=request, actor=actor))

    def _number(self, session: Session, statement: str, **values: Any) -> int:
        rows = session.rows(statement, **values)
        return int(rows[0]["number"])


def _values(service: Service, standing: ServiceState, now: int) -> dict[str, Any]:
    ask_at, hold = 0, 0
    if standing.breaker is BreakerState.OPEN and service.mode != "fail_fast":
        ask_at, hold = (FOREVER, FOREVER) if standing.forced else (standing.open_until, standing.hold)
    return {
        "name": standing.name,
        "standing": encode_state(standing),
        "epoch": standing.epoch,
        "is_restricted": is_restricted(service, standing),
        "ask_at": ask_at,
        "hold": hold,
        "is_failing": standing.is_failing and service.budget is not None,
        "now": now,
    }


def changes_of(grants: Iterable[Grant]) -> list[ServiceChange]:
    return [change for grant in grants for change in _changes(grant.name, grant.turn)]


def _changes(name: str, turn: Transition) -> list[ServiceChange]:
    return [ServiceChange(name, change.type, change.data) for change in turn.changes]


def _event(name: str, change: Change, now: int, *, request: str | None, actor: str | None) -> dict[str, Any]:
    data = {"service": name, **change.data}
    return event_values(change.type, "", "", "", 0, now=now, request=request, actor=actor, data=data)


def _standing(row: Record) -> ServiceState:
    """A row that somebody damaged is taken for a closed service, of its epoch."""
    plain = ServiceState(name=row["name"], epoch=row["epoch"])
    try:
        found = decode_state(row["standing"])
    except (msgspec.DecodeError, RecursionError):
        return plain
    return found if (found.name, found.epoch) == (plain.name, plain.epoch) else plain


def _tally(text: str) -> CallCounts:
    try:
        return decode_counts(text)
    except (msgspec.DecodeError, RecursionError):
        return CallCounts()
