"""A claim on PostgreSQL: one statement for all lanes, in two round trips as long as no service has to be asked."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, Lease
from mulligan.store.clock import Now, moment
from mulligan.store.limits import AGAIN
from mulligan.store.postgres.connections import Connection
from mulligan.store.postgres.play import (
    ASYNCHRONOUSLY,
    BEGIN_ASYNCHRONOUS,
    SQL,
    execute,
    fetched,
    leases,
    play,
    row,
    transaction,
)
from mulligan.store.postgres.promote import Door
from mulligan.store.protocols import Claim, Claimed
from mulligan.store.rows import CLAIMED, earliest, to_duration, to_json, to_leases
from mulligan.store.services import Grant, ServiceDesk, changes_of
from mulligan.store.values import start_data

# When others were claiming in the same moment and ready jobs are left: microseconds until it is worth another look.
CLAIM_AGAIN = 10_000


class ClaimDesk:
    """Where jobs are handed out. `job` finds the whole record of one."""

    def __init__(self, services: ServiceDesk, door: Door, job: Callable[[str], Job[Any]]) -> None:
        self._services = services
        self._door = door
        self._job = job

    def claim(self, db: Connection, claim: Claim, now: Now) -> Claimed:
        look, again = self._door.promote_if_needed(db, claim, now)
        if look.is_new_limit:
            claim, again = self._door.unconcerned(db, claim), AGAIN
        where: dict[str, Any] = {
            "now": now,
            "kinds": list(claim.kinds),
            "queues": None if claim.queues is None else list(claim.queues),
            "grants": None,
        }
        grants: list[Grant] = []
        if look.asks or self._services.has_rates:
            taken, due, time, grants = self._claim_granted(db, claim, where)
        else:
            taken, due, time = self._claim_at_once(db, claim, where)
        if len(taken) < claim.limit and row(db, claiming("claim_left"), where)[0]:
            due = earliest(due, time + CLAIM_AGAIN)
        if again is not None:
            due = earliest(due, time + again)
        due = earliest(due, *(time + grant.again_in for grant in grants if grant.again_in))
        return Claimed(taken, None if due is None else timedelta(microseconds=max(0, due - time)), changes_of(grants))

    def recall(self, db: Connection, statement: str, values: dict[str, Any]) -> list[Lease]:
        """Leases of a claim whose reply was lost."""
        found = leases(db, SQL[statement], values)
        if any(lease.service for lease in found):
            play(db, self._services.recalled(found))
        return found

    def _claim_at_once(
        self, db: Connection, claim: Claim, where: dict[str, Any]
    ) -> tuple[list[Lease], int | None, int]:
        """The leases, when a job comes due, and the time."""
        where["grants"] = "[]"
        # All in one round trip: a thread that waits for an answer waits for its turn in a busy process too.
        with db.pipeline():
            db.execute("BEGIN")
            db.execute(ASYNCHRONOUSLY)
            statement = claiming("claim", whole=claim.whole, source="picked")
            claimed = execute(db, statement, _claim_values(claim, where), prepare=True)
            if claim.fair:
                execute(db, SQL["turns_raise"], _turn_values(claim))
            next_due = execute(db, SQL["next_due"], {"now": where["now"]})
            db.execute("COMMIT")
        taken = to_leases(claimed, claimed.fetchall(), None if claim.whole else self._job)
        return taken, *fetched(next_due)

    def _claim_granted(
        self, db: Connection, claim: Claim, where: dict[str, Any]
    ) -> tuple[list[Lease], int | None, int, list[Grant]]:
        """As many of each service that is not simply closed as it grants."""
        now: Now = where["now"]
        with transaction(db, BEGIN_ASYNCHRONOUS):
            if repeated := self._repeated(db, claim):
                return repeated, None, play(db, moment(SQL, now)), []
            grants = self._grants(db, claim, where)
            where["grants"] = to_json([grant.values for grant in grants])
            statement = claiming("claim", whole=claim.whole, source="granted" if grants else "picked")
            job = None if claim.whole else self._job
            taken = leases(db, statement, _claim_values(claim, where), job=job)
            due, time = row(db, SQL["next_due"], {"now": now})
            play(db, self._services.taken(grants, taken, time))
            if claim.fair:
                execute(db, SQL["turns_raise"], _turn_values(claim))
        return taken, due, time, grants

    def _repeated(self, db: Connection, claim: Claim) -> list[Lease]:
        """The leases of this very call: what services grant was counted when it was first made."""
        return self.recall(db, "claim_repeated", {"incarnation": claim.incarnation, "claim": claim.number})

    def _grants(self, db: Connection, claim: Claim, where: dict[str, Any]) -> list[Grant]:
        time = play(db, moment(SQL, where["now"]))
        names = [name for (name,) in execute(db, claiming("claim_services"), where)]
        return play(db, self._services.grants(claim, names, time))


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
