"""Claim on PostgreSQL: one statement for all lanes, in two round trips if no service is restricted."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, Lease
from mulligan.records.limit import EVERY_OWNER
from mulligan.store.enqueue import SharedOperations
from mulligan.store.events import start_data
from mulligan.store.limits import CHECK_AGAIN
from mulligan.store.messages import Claim, Claimed
from mulligan.store.postgres.session import ASYNCHRONOUSLY, BEGIN, BEGIN_ASYNCHRONOUS, SQL, PostgresSession, fetch_row
from mulligan.store.promote import Promotable, PromoteOperations
from mulligan.store.rows import CLAIMED, earliest, to_duration, to_json, to_leases
from mulligan.store.services import Grant, ServiceOperations, list_changes
from mulligan.store.session import Now, Session, for_postgres

# Microseconds until the next claim, if concurrent claims left ready jobs.
CLAIM_AGAIN = 10_000


class PostgresPromote(PromoteOperations):
    def __init__(self, operations: SharedOperations) -> None:
        super().__init__(operations, _promote_pass)

    def promote_if_needed(self, session: PostgresSession, claim: Claim) -> tuple[Promotable, int | None]:
        """Promote before a claim, if there is anything to promote. Mostly there is nothing."""
        # Read before the query: a beat may announce the limits between the two, too late for the query.
        has_news = self._limits.has_news
        found = self.find_promotable(session)
        if not (found.has_work or has_news):
            return found, None
        # In a separate transaction: its id would be older than the ids of jobs that are enqueued now, and the log would
        # show them started before they are enqueued.
        with session.transaction(BEGIN_ASYNCHRONOUS):
            return self.promote(session, claim=claim)

    def promote_in_transaction(self, session: PostgresSession, duty: str, limit: int, *, is_manual: bool) -> int:
        with session.transaction(BEGIN):
            return self.promote_by_duty(session, duty, limit, is_manual=is_manual)


def _promote_pass(session: Session, statement: str, values: dict[str, Any]) -> tuple[int, int]:
    (row,) = session.rows(statement, values)
    return int(row["passed"]), int(row["held"])


class PostgresClaim:
    """Lease ready jobs. `job` loads the full record of one."""

    def __init__(self, services: ServiceOperations, promote: PostgresPromote, job: Callable[[str], Job[Any]]) -> None:
        self._services = services
        self._promote = promote
        self._job = job

    def claim(self, session: PostgresSession, claim: Claim) -> Claimed:
        found, again = self._promote.promote_if_needed(session, claim)
        if found.is_new_limit:
            claim, again = self._promote.without_new_limits(session, claim), CHECK_AGAIN
        where: dict[str, Any] = {
            "now": session.now,
            "kinds": list(claim.kinds),
            "queues": None if claim.queues is None else list(claim.queues),
            "grants": None,
            "besides": list(claim.besides),
        }
        grants: list[Grant] = []
        if found.has_restricted or self._services.has_rates:
            taken, due, time, grants = self._claim_granted(session, claim, where)
        else:
            taken, due, time = self._claim_at_once(session, claim, where)
        if len(taken) < claim.limit and session.row(claim_statement("claim_left", owners=_owners(claim)), where)[0]:
            due = earliest(due, time + CLAIM_AGAIN)
        if again is not None:
            due = earliest(due, time + again)
        due = earliest(due, *(time + grant.again_in for grant in grants if grant.again_in))
        return Claimed(taken, None if due is None else timedelta(microseconds=max(0, due - time)), list_changes(grants))

    def recall(self, session: PostgresSession, statement: str, values: dict[str, Any]) -> list[Lease]:
        """Return the leases of a claim whose reply was lost."""
        found = session.leases(statement, values)
        if any(lease.service for lease in found):
            self._services.mark_refused(session, found)
        return found

    def _claim_at_once(
        self, session: PostgresSession, claim: Claim, where: dict[str, Any]
    ) -> tuple[list[Lease], int | None, int]:
        """Return the leases, when the next job becomes due, and the time."""
        where["grants"] = "[]"
        # All in one round trip: a thread that waits for an answer also waits to be scheduled again in a busy process.
        with session.db.pipeline():
            session.db.execute("BEGIN")
            session.db.execute(ASYNCHRONOUSLY)
            statement = claim_statement("claim", whole=claim.whole, source="picked", owners=_owners(claim))
            claimed = session.cursor(statement, _claim_values(claim, where), prepare=True)
            if claim.fair:
                session.cursor(SQL["turns_raise"], _turn_values(claim))
            next_due = session.cursor(SQL["next_due"], {"now": where["now"]})
            session.db.execute("COMMIT")
        taken = to_leases(claimed, claimed.fetchall(), None if claim.whole else self._job)
        return taken, *fetch_row(next_due)

    def _claim_granted(
        self, session: PostgresSession, claim: Claim, where: dict[str, Any]
    ) -> tuple[list[Lease], int | None, int, list[Grant]]:
        """Take of each restricted service as many jobs as it grants."""
        now: Now = where["now"]
        with session.transaction(BEGIN_ASYNCHRONOUS):
            if repeated := self._load_repeated(session, claim):
                return repeated, None, session.moment(), []
            grants = self._compute_grants(session, claim, where)
            where["grants"] = to_json([grant.values for grant in grants])
            source = "granted" if grants else "picked"
            statement = claim_statement("claim", whole=claim.whole, source=source, owners=_owners(claim))
            job = None if claim.whole else self._job
            taken = session.fetch_leases(statement, _claim_values(claim, where), job=job)
            due, time = session.row(SQL["next_due"], {"now": now})
            self._services.record_taken(session, grants, taken)
            if claim.fair:
                session.cursor(SQL["turns_raise"], _turn_values(claim))
        return taken, due, time, grants

    def _load_repeated(self, session: PostgresSession, claim: Claim) -> list[Lease]:
        """Return the leases of this call if it is repeated: its grants were counted the first time."""
        return self.recall(session, "claim_repeated", {"incarnation": claim.incarnation, "claim": claim.number})

    def _compute_grants(self, session: PostgresSession, claim: Claim, where: dict[str, Any]) -> list[Grant]:
        names = [name for (name,) in session.cursor(claim_statement("claim_services"), where)]
        return self._services.compute_grants(session, claim, names)


def _claim_values(claim: Claim, where: dict[str, Any]) -> dict[str, Any]:
    step = TABLE[Move.CLAIM, State.QUEUED]
    return {
        **where,
        "incarnation": claim.incarnation,
        "claim": claim.number,
        "limit": claim.limit,
        "lease": to_duration(claim.lease),
        "running": step.target.value,
        "event": step.event,
        "version": claim.version,
        "automatic": start_data(claim, "automatic"),
        "manual": start_data(claim, "manual"),
    }


def _turn_values(claim: Claim) -> dict[str, Any]:
    return {"incarnation": claim.incarnation, "claim": claim.number, "fair": list(claim.fair)}


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
