"""A claim on PostgreSQL: one statement for all lanes, in two round trips as long as no service has to be asked."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, Lease
from mulligan.store.limits import AGAIN
from mulligan.store.messages import Claim, Claimed
from mulligan.store.postgres.promote import PostgresPromote
from mulligan.store.postgres.session import ASYNCHRONOUSLY, BEGIN_ASYNCHRONOUS, SQL, PostgresSession, fetch_row
from mulligan.store.rows import CLAIMED, earliest, to_duration, to_json, to_leases
from mulligan.store.services import Grant, ServiceOperations, changes_of
from mulligan.store.session import Now
from mulligan.store.values import start_data

# When others were claiming in the same moment and ready jobs are left: microseconds until it is worth another look.
CLAIM_AGAIN = 10_000


class PostgresClaim:
    """Where jobs are handed out. `job` finds the whole record of one."""

    def __init__(self, services: ServiceOperations, door: PostgresPromote, job: Callable[[str], Job[Any]]) -> None:
        self._services = services
        self._door = door
        self._job = job

    def claim(self, session: PostgresSession, claim: Claim, now: Now) -> Claimed:
        look, again = self._door.promote_if_needed(session, claim, now)
        if look.is_new_limit:
            claim, again = self._door.without_new_limits(session, claim), AGAIN
        where: dict[str, Any] = {
            "now": now,
            "kinds": list(claim.kinds),
            "queues": None if claim.queues is None else list(claim.queues),
            "grants": None,
        }
        grants: list[Grant] = []
        if look.asks or self._services.has_rates:
            taken, due, time, grants = self._claim_granted(session, claim, where)
        else:
            taken, due, time = self._claim_at_once(session, claim, where)
        if len(taken) < claim.limit and session.row(claiming("claim_left"), where)[0]:
            due = earliest(due, time + CLAIM_AGAIN)
        if again is not None:
            due = earliest(due, time + again)
        due = earliest(due, *(time + grant.again_in for grant in grants if grant.again_in))
        return Claimed(taken, None if due is None else timedelta(microseconds=max(0, due - time)), changes_of(grants))

    def recall(self, session: PostgresSession, statement: str, values: dict[str, Any]) -> list[Lease]:
        """Leases of a claim whose reply was lost."""
        found = session.leases(statement, values)
        if any(lease.service for lease in found):
            self._services.recalled(session, found)
        return found

    def _claim_at_once(
        self, session: PostgresSession, claim: Claim, where: dict[str, Any]
    ) -> tuple[list[Lease], int | None, int]:
        """The leases, when a job comes due, and the time."""
        where["grants"] = "[]"
        # All in one round trip: a thread that waits for an answer waits for its turn in a busy process too.
        with session.db.pipeline():
            session.db.execute("BEGIN")
            session.db.execute(ASYNCHRONOUSLY)
            statement = claiming("claim", whole=claim.whole, source="picked")
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
        """As many of each service that is not simply closed as it grants."""
        now: Now = where["now"]
        with session.transaction(BEGIN_ASYNCHRONOUS):
            if repeated := self._repeated(session, claim):
                return repeated, None, session.moment(now), []
            grants = self._grants(session, claim, where)
            where["grants"] = to_json([grant.values for grant in grants])
            statement = claiming("claim", whole=claim.whole, source="granted" if grants else "picked")
            job = None if claim.whole else self._job
            taken = session.leased(statement, _claim_values(claim, where), job=job)
            due, time = session.row(SQL["next_due"], {"now": now})
            self._services.taken(session, grants, taken, time)
            if claim.fair:
                session.cursor(SQL["turns_raise"], _turn_values(claim))
        return taken, due, time, grants

    def _repeated(self, session: PostgresSession, claim: Claim) -> list[Lease]:
        """The leases of this very call: what services grant was counted when it was first made."""
        return self.recall(session, "claim_repeated", {"incarnation": claim.incarnation, "claim": claim.number})

    def _grants(self, session: PostgresSession, claim: Claim, where: dict[str, Any]) -> list[Grant]:
        time = session.moment(where["now"])
        names = [name for (name,) in session.cursor(claiming("claim_services"), where)]
        return self._services.grants(session, claim, names, time)


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


@cache
def claiming(name: str, *, whole: bool = False, source: str = "") -> str:
    """A statement about the lanes that a claim may take from."""
    columns = "mulligan_jobs.*" if whole else CLAIMED
    return SQL[name].format(lanes=SQL["claim_lanes"], columns=columns, source=source)
