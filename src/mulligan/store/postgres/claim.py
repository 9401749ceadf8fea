"""Claim on PostgreSQL: a look in one round trip, and a statement in another if there is something to take."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, Lease
from mulligan.records.limit import EVERY_OWNER
from mulligan.store.enqueue import SharedOperations
from mulligan.store.events import start_data
from mulligan.store.limits import CHECK_AGAIN
from mulligan.store.messages import Claim, Claimed
from mulligan.store.postgres.session import (
    ASYNCHRONOUSLY,
    BEGIN,
    BEGIN_ASYNCHRONOUS,
    SQL,
    Cursor,
    PostgresSession,
    fetch_row,
)
from mulligan.store.promote import Promotable, PromoteOperations
from mulligan.store.rows import CLAIMED, earliest, to_duration, to_json, to_leases
from mulligan.store.services import Grant, ServiceOperations, list_changes
from mulligan.store.session import Session, for_postgres

# Microseconds until the next claim, if concurrent claims left ready jobs.
CLAIM_AGAIN = 10_000

Values = dict[str, Any]


class Claimable(NamedTuple):
    """What a claim would find."""

    promotable: Promotable
    lanes: Sequence[Sequence[str]]
    """The first two lanes that it may take from: queue, kind and service of each."""
    is_repeated: bool
    """An earlier call with this number took jobs, and its reply was lost."""
    due: int | None
    """When the next waiting job becomes due."""
    time: int

    @property
    def is_empty(self) -> bool:
        return not (self.lanes or self.is_repeated)


class PostgresPromote(PromoteOperations):
    def __init__(self, operations: SharedOperations) -> None:
        super().__init__(operations, _promote_pass)

    def find_claimable(self, session: PostgresSession, claim: Claim) -> Claimable:
        *promotable, lanes, is_repeated, due, time = session.row(SQL["claimable"], _where(session, claim), prepare=True)
        return Claimable(Promotable(*promotable), lanes, is_repeated, due, time)

    def promote_before_claim(self, session: PostgresSession, claim: Claim) -> tuple[Promotable, int | None]:
        # In a separate transaction: its id would be older than the ids of jobs that are enqueued now, and the log would
        # show them started before they are enqueued.
        with session.transaction(BEGIN_ASYNCHRONOUS):
            return self.promote(session, claim=claim)

    def promote_in_transaction(self, session: PostgresSession, duty: str | None, limit: int, *, is_manual: bool) -> int:
        # What a crash undoes is due again.
        with session.transaction(BEGIN if is_manual else BEGIN_ASYNCHRONOUS):
            return self.promote_by_duty(session, duty, limit, is_manual=is_manual)


def _promote_pass(session: Session, statement: str, values: Values) -> tuple[int, int]:
    (row,) = session.rows(statement, values)
    return int(row["passed"]), int(row["held"])


class PostgresClaim:
    """Lease ready jobs. `job` loads the full record of one."""

    def __init__(self, services: ServiceOperations, promote: PostgresPromote, job: Callable[[str], Job[Any]]) -> None:
        self._services = services
        self._promote = promote
        self._job = job

    def claim(self, session: PostgresSession, claim: Claim) -> Claimed:
        # Read before the query: a beat may announce the limits between the two, too late for the query.
        has_news = self._promote.has_news
        found = self._promote.find_claimable(session, claim)
        if found.promotable.has_work or has_news:
            return self._promote_and_claim(session, claim)
        if found.is_empty:
            return Claimed([], _until(found.due, found.time))
        if len(found.lanes) == 1 and not (found.is_repeated or self._has_restrictions(found.promotable)):
            return self._claim_lane(session, claim, found)
        return self._claim_lanes(session, claim, found.promotable)

    def _promote_and_claim(self, session: PostgresSession, claim: Claim) -> Claimed:
        promotable, again = self._promote.promote_before_claim(session, claim)
        if promotable.is_new_limit:
            claim, again = self._promote.without_new_limits(session, claim), CHECK_AGAIN
        return self._claim_lanes(session, claim, promotable, again)

    def _claim_lanes(
        self, session: PostgresSession, claim: Claim, promotable: Promotable, again: int | None = None
    ) -> Claimed:
        where, grants = _where(session, claim), list[Grant]()
        if self._has_restrictions(promotable):
            taken, due, time, grants = self._claim_granted(session, claim, where)
        else:
            taken, due, time = self._claim_at_once(session, claim, where)
        if len(taken) < claim.limit and self._has_left(session, claim, where):
            due = earliest(due, time + CLAIM_AGAIN)
        if again is not None:
            due = earliest(due, time + again)
        due = earliest(due, *(time + grant.again_in for grant in grants if grant.again_in))
        return Claimed(taken, _until(due, time), list_changes(grants))

    def _has_restrictions(self, promotable: Promotable) -> bool:
        return promotable.has_restricted or self._services.has_rates

    def recall(self, session: PostgresSession, statement: str, values: Values) -> list[Lease]:
        """Return the leases of a claim whose reply was lost."""
        found = session.leases(statement, values)
        if any(lease.service for lease in found):
            self._services.mark_refused(session, found)
        return found

    def _claim_lane(self, session: PostgresSession, claim: Claim, found: Claimable) -> Claimed:
        """Take from the only lane that has ready jobs."""
        ((queue, kind, service),) = found.lanes
        where = {**_where(session, claim), "grants": "[]", "queue": queue, "kind": kind, "service": service}
        with _one_round_trip(session) if queue in claim.fair else nullcontext():
            claimed = self._take(session, claim, "claim_lane", where)
            if queue in claim.fair:
                _raise_turns(session, claim)
        taken = self._leases(claim, claimed)
        # Other claims have locked the jobs, and may still give them back; or all of them are past their deadlines.
        has_left = bool(claim.limit) and not taken and self._has_left(session, claim, where)
        due = earliest(found.due, found.time + CLAIM_AGAIN) if has_left else found.due
        return Claimed(taken, _until(due, found.time))

    def _has_left(self, session: PostgresSession, claim: Claim, where: Values) -> bool:
        return bool(session.row(claim_statement("claim_left", owners=_owners(claim)), where)[0])

    def _claim_at_once(
        self, session: PostgresSession, claim: Claim, where: Values
    ) -> tuple[list[Lease], int | None, int]:
        """Return the leases, when the next job becomes due, and the time."""
        where["grants"] = "[]"
        with _one_round_trip(session):
            claimed = self._take(session, claim, "claim", where)
            next_due = session.cursor(SQL["next_due"], {"now": where["now"]})
            _raise_turns(session, claim)
        return self._leases(claim, claimed), *fetch_row(next_due)

    def _claim_granted(
        self, session: PostgresSession, claim: Claim, where: Values
    ) -> tuple[list[Lease], int | None, int, list[Grant]]:
        """Take of each restricted service as many jobs as it grants."""
        with session.transaction(BEGIN_ASYNCHRONOUS):
            if repeated := self._load_repeated(session, claim):
                return repeated, None, session.moment(), []
            grants = self._compute_grants(session, claim, where)
            where["grants"] = to_json([grant.values for grant in grants])
            taken = self._leases(claim, self._take(session, claim, "claim", where, "granted" if grants else "picked"))
            due, time = session.row(SQL["next_due"], {"now": where["now"]})
            self._services.record_taken(session, grants, taken)
            _raise_turns(session, claim)
        return taken, due, time, grants

    def _take(self, session: PostgresSession, claim: Claim, name: str, where: Values, source: str = "picked") -> Cursor:
        statement = claim_statement(name, whole=claim.whole, source=source, owners=_owners(claim))
        return session.cursor(statement, _claim_values(claim, where), prepare=True)

    def _leases(self, claim: Claim, claimed: Cursor) -> list[Lease]:
        return to_leases(claimed, claimed.fetchall(), None if claim.whole else self._job)

    def _load_repeated(self, session: PostgresSession, claim: Claim) -> list[Lease]:
        """Return the leases of this call if it is repeated: its grants were counted the first time."""
        return self.recall(session, "claim_repeated", {"incarnation": claim.incarnation, "claim": claim.number})

    def _compute_grants(self, session: PostgresSession, claim: Claim, where: Values) -> list[Grant]:
        names = [name for (name,) in session.cursor(claim_statement("claim_services"), where)]
        return self._services.compute_grants(session, claim, names)


@contextmanager
def _one_round_trip(session: PostgresSession) -> Iterator[None]:
    """Statements that are sent together: a thread that waits for an answer also waits to be scheduled again in a busy
    process. They are one transaction without BEGIN and COMMIT, each of which would take as long as a statement."""
    with session.db.pipeline():
        session.db.execute(ASYNCHRONOUSLY)
        yield


def _until(due: int | None, time: int) -> timedelta | None:
    return None if due is None else timedelta(microseconds=max(0, due - time))


def _where(session: PostgresSession, claim: Claim) -> Values:
    """Which jobs a claim may take. Without grants, services that restrict their jobs are not left out."""
    return {
        "now": session.now,
        "kinds": list(claim.kinds),
        "queues": None if claim.queues is None else list(claim.queues),
        "grants": None,
        "besides": list(claim.besides),
        "incarnation": claim.incarnation,
        "claim": claim.number,
    }


def _claim_values(claim: Claim, where: Values) -> Values:
    step = TABLE[Move.CLAIM, State.QUEUED]
    return {
        **where,
        "limit": claim.limit,
        "lease": to_duration(claim.lease),
        "running": step.target.value,
        "event": step.event,
        "version": claim.version,
        "automatic": start_data(claim, "automatic"),
        "manual": start_data(claim, "manual"),
    }


def _raise_turns(session: PostgresSession, claim: Claim) -> None:
    if claim.fair:
        values = {"incarnation": claim.incarnation, "claim": claim.number, "fair": list(claim.fair)}
        session.cursor(SQL["turns_raise"], values)


def _owners(claim: Claim) -> str:
    """Return the condition on the owners of the jobs; empty for nearly every claim."""
    if not claim.besides:
        return ""
    return "AND owner = ''" if EVERY_OWNER in claim.besides else for_postgres("AND owner <> ALL (:besides::text[])")


@cache
def claim_statement(name: str, *, whole: bool = False, source: str = "", owners: str = "") -> str:
    """Return a statement about the lanes that a claim may take from."""
    columns = "mulligan_jobs.*" if whole else CLAIMED
    return SQL[name].format(lanes=SQL["claim_lanes"], columns=columns, source=source, owners=owners)
