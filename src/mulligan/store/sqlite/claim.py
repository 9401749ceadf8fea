"""A claim on SQLite: the first jobs of all lanes that are open to it, by one merge."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from operator import itemgetter
from typing import Any

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, Lease
from mulligan.store.limits import AGAIN
from mulligan.store.messages import Claim, Claimed
from mulligan.store.rows import CLAIMED, earliest, to_duration, to_json, to_leases
from mulligan.store.services import ServiceOperations, changes_of
from mulligan.store.sqlite.corruption import Corruption, past_damage
from mulligan.store.sqlite.lanes import LaneHead, Open, services_of
from mulligan.store.sqlite.promote import SqlitePromote
from mulligan.store.sqlite.session import SQL, SqliteSession
from mulligan.store.values import start_data


class SqliteClaim:
    """Where jobs are handed out. `job` finds the whole record of one."""

    def __init__(
        self, services: ServiceOperations, door: SqlitePromote, damage: Corruption, job: Callable[[str], Job[Any]]
    ) -> None:
        self._services = services
        self._door = door
        self._damage = damage
        self._job = job

    def claim(self, session: SqliteSession, claim: Claim, now: int) -> Claimed:
        look, again = self._door.promote(session, now, claim=claim)
        values = {"incarnation": claim.incarnation, "claim": claim.number}
        if repeated := self.recall(session, "claim_repeated", values):
            return Claimed(repeated, None)
        if look.is_new_limit:
            claim, again = self._door.without_new_limits(session, claim), AGAIN
        lanes = self._lanes(session, claim, now)
        asked = services_of(lanes) if look.asks or self._services.has_rates else []
        grants = self._services.grants(session, claim, asked, now) if asked else []
        taken = self._take(session, claim, Open(lanes, _restricted(session, asked), grants), now)
        if taken and claim.fair:
            session.db.execute(SQL["turns_raise"], {**values, "fair": to_json(list(claim.fair))})
        due = self._next_due(session, now)
        if again is not None:
            due = earliest(due, now + again)
        if grants:
            self._services.taken(session, grants, taken, now)
            due = earliest(due, *(now + grant.again_in for grant in grants if grant.again_in))
        return Claimed(taken, None if due is None else timedelta(microseconds=max(0, due - now)), changes_of(grants))

    def recall(self, session: SqliteSession, statement: str, values: dict[str, Any]) -> list[Lease]:
        """Leases of a claim whose reply was lost."""
        if found := session.leases(statement, values):
            self._services.recalled(session, found)
        return found

    def _next_due(self, session: SqliteSession, now: int) -> int | None:
        due: int | None
        (due,) = session.db.execute(SQL["next_due"]).fetchone()
        if due is not None and due <= now:
            self._door.promote_past_damage(session, now)
            (due,) = session.db.execute(SQL["next_due"]).fetchone()
        return due

    def _lanes(self, session: SqliteSession, claim: Claim, now: int) -> list[LaneHead]:
        """The lanes with ready jobs for this claim that nobody has paused."""
        lanes = session.db.execute(SQL["claim_lanes"]).fetchall()
        if not lanes:
            return []
        kinds = frozenset(claim.kinds)
        paused = frozenset(session.db.execute(SQL["claim_paused"], {"now": now}).fetchall())
        return [
            (priority, rank, id_, {"queue": queue, "kind": kind, "service": service, "now": now})
            for queue, kind, service, priority, rank, id_ in lanes
            if kind in kinds
            and (claim.queues is None or queue in claim.queues)
            and not (paused and paused & {("queue", queue), ("kind", kind), ("service", service)})
        ]

    def _take(self, session: SqliteSession, claim: Claim, lanes: Open, now: int) -> list[Lease]:
        taken: list[Lease] = []
        while True:
            wanted = claim.limit - len(taken)
            picked = [seq for *_, seq in islice(_in_order(session, lanes), wanted)]
            leased = self._lease(session, claim, lanes, picked, now) if picked else []
            taken += leased
            if len(leased) == len(picked):
                return taken
            self._damage.condemn(session, picked, now, sources=[State.QUEUED])

    def _lease(self, session: SqliteSession, claim: Claim, lanes: Open, picked: list[int], now: int) -> list[Lease]:
        step = TABLE[Move.CLAIM, State.QUEUED]
        values = {
            "now": now,
            "lease": to_duration(claim.lease),
            "incarnation": claim.incarnation,
            "claim": claim.number,
            "picked": to_json(picked),
            "grants": to_json(lanes.grants),
            "running": step.target,
            "version": claim.version,
        }
        cursor = past_damage(session, SQL["claim"].format(columns="*" if claim.whole else CLAIMED), values)
        at = {column[0]: index for index, column in enumerate(cursor.description)}
        rows = cursor.fetchall()
        data = {trigger: start_data(claim, trigger) for trigger in ("automatic", "manual")}
        events = [
            (step.event, id_, kind, owner, attempt, now, data.get(trigger, data["automatic"]))
            for id_, kind, owner, attempt, trigger in map(
                itemgetter(*[at[name] for name in ("id", "kind", "owner", "attempt", "trigger")]), rows
            )
        ]
        session.db.executemany(SQL["event_plain"], events)
        return to_leases(cursor, rows, None if claim.whole else self._job)


def _in_order(session: SqliteSession, lanes: Open) -> Iterator[tuple[int, int, str, int]]:
    """Ready jobs of all lanes, merged lazily: a lane is opened when its first job's turn comes, and read no further
    than it is needed."""
    heads: list[tuple[Any, ...]] = [(*head, place, None, None) for *head, place in lanes.heads]
    heapq.heapify(heads)
    while heads:
        *_, place, lane, job = heapq.heappop(heads)
        if not lanes.has_room(place):
            continue
        if job is not None:
            lanes.take(place)
            yield job
        lane = session.db.execute(SQL["claim_lane"], place) if lane is None else lane
        if (following := lane.fetchone()) is not None:
            priority, rank, id_, _ = following
            heapq.heappush(heads, (priority, rank, id_, place, lane, following))


def _restricted(session: SqliteSession, names: Sequence[str]) -> frozenset[str]:
    if not names:
        return frozenset()
    return frozenset(name for (name,) in session.db.execute(SQL["services_restricted"], {"names": to_json(names)}))
