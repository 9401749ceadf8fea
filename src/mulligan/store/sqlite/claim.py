"""Claim on SQLite: merge the open lanes and lease the first jobs."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import cache
from itertools import islice
from typing import Any, TypeAlias

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Job, Lease
from mulligan.records.limit import EVERY_OWNER
from mulligan.store.enqueue import SharedOperations
from mulligan.store.events import start_data
from mulligan.store.limits import CHECK_AGAIN
from mulligan.store.messages import Claim, Claimed
from mulligan.store.promote import PROMOTE_PASS, Promotable, PromoteOperations
from mulligan.store.rows import CLAIMED, earliest, records, to_duration, to_json, to_leases
from mulligan.store.services import Grant, ServiceOperations, list_changes
from mulligan.store.session import Session
from mulligan.store.sqlite.corruption import Corruption, find_left
from mulligan.store.sqlite.session import SQL, SqliteSession

LaneValues: TypeAlias = dict[str, Any]
LaneHead: TypeAlias = tuple[int, int, str, LaneValues]


class OpenLanes:
    """The lanes that one claim may take from. Of a restricted service it takes no more than was granted."""

    def __init__(
        self, claim: Claim, heads: Sequence[LaneHead], restricted: frozenset[str], grants: Sequence[Grant]
    ) -> None:
        self.heads = heads
        self.statement = _fill_in(SQL["claim_lane"], owners=_owners(claim))
        self.grants = [grant.values for grant in grants]
        self._left = dict.fromkeys(restricted, 0)
        self._only: dict[str, str | None] = {}
        for values in self.grants:
            self._left[values["service"]], self._only[values["service"]] = values["number"], values["kind"]

    def has_room(self, values: LaneValues) -> bool:
        service = values["service"]
        return service not in self._left or (
            self._left[service] > 0 and self._only.get(service) in (None, values["kind"])
        )

    def take(self, values: LaneValues) -> None:
        if values["service"] in self._left:
            self._left[values["service"]] -= 1


@cache
def _fill_in(statement: str, **words: str) -> str:
    """The same text each time, so that SQLite's driver finds the prepared statement at once."""
    return statement.format(**words)


def _owners(claim: Claim) -> str:
    """Return the condition on the owners of the jobs; empty for nearly every claim."""
    if not claim.besides:
        return ""
    is_every = EVERY_OWNER in claim.besides
    return "AND owner = ''" if is_every else "AND owner NOT IN (SELECT value FROM json_each(:besides))"


def list_services(heads: Sequence[LaneHead]) -> list[str]:
    return sorted({values["service"] for *_, values in heads if values["service"]})


class SqlitePromote(PromoteOperations):
    def __init__(self, operations: SharedOperations, corruption: Corruption) -> None:
        super().__init__(operations, _promote_pass)
        self._corruption = corruption

    def promote_past_damage(self, session: SqliteSession) -> None:
        """Promote once more. A due job that still does not move is damaged: fail it, or it would be due for ever."""
        limit = PROMOTE_PASS - sum(self.promote_pass(session, "promote", limit=PROMOTE_PASS))
        self._corruption.condemn(session, find_left(session, "promote_damaged", limit), sources=[State.WAITING])


def _promote_pass(session: Session, statement: str, values: dict[str, Any]) -> tuple[int, int]:
    assert isinstance(session, SqliteSession)
    cursor = session.past_damage(SQL[statement], values)
    moved = records(cursor, cursor.fetchall())
    if promoted := [row for row in moved if row["state"] == values["queued"]]:
        about = {"event": values["event"], "code": None, "data": "{}"}
        session.rows("events_of_many", {**about, "jobs": to_json(promoted)})
    return len(promoted), len(moved) - len(promoted)


class SqliteClaim:
    """Lease ready jobs. `job` loads the full record of one."""

    def __init__(
        self,
        services: ServiceOperations,
        promote: SqlitePromote,
        corruption: Corruption,
        job: Callable[[str], Job[Any]],
    ) -> None:
        self._services = services
        self._promote = promote
        self._corruption = corruption
        self._job = job

    def claim(self, session: SqliteSession, claim: Claim) -> Claimed:
        now = session.now
        values = {"incarnation": claim.incarnation, "claim": claim.number, "now": now}
        *answers, is_repeated, has_pauses, due = session.db.execute(SQL["claimable"], values).fetchone()
        found, again = Promotable(*map(bool, answers)), None
        has_promoted = found.has_work or self._promote.has_news
        if has_promoted:
            found, again = self._promote.promote(session, claim=claim)
        if is_repeated:
            return Claimed(self.recall(session, "claim_repeated", values), None)
        if found.is_new_limit:
            claim, again = self._promote.without_new_limits(session, claim), CHECK_AGAIN
        lanes = self._find_lanes(session, claim, _load_paused(session) if has_pauses else frozenset())
        asked = list_services(lanes) if found.has_restricted or self._services.has_rates else []
        grants = self._services.compute_grants(session, claim, asked) if asked else []
        taken = self._take(session, claim, OpenLanes(claim, lanes, _load_restricted(session, asked), grants))
        if taken and claim.fair:
            session.db.execute(SQL["turns_raise"], {**values, "fair": to_json(list(claim.fair))})
        if has_promoted:
            due = self._find_next_due(session)
        if again is not None:
            due = earliest(due, now + again)
        if grants:
            self._services.record_taken(session, grants, taken)
            due = earliest(due, *(now + grant.again_in for grant in grants if grant.again_in))
        return Claimed(taken, None if due is None else timedelta(microseconds=max(0, due - now)), list_changes(grants))

    def recall(self, session: SqliteSession, statement: str, values: dict[str, Any]) -> list[Lease]:
        """Return the leases of a claim whose reply was lost."""
        if found := session.leases(statement, values):
            self._services.mark_refused(session, found)
        return found

    def _find_next_due(self, session: SqliteSession) -> int | None:
        due: int | None
        due, now = session.db.execute(SQL["next_due"], {"now": session.now}).fetchone()
        if due is not None and due <= now:
            self._promote.promote_past_damage(session)
            due, _ = session.db.execute(SQL["next_due"], {"now": now}).fetchone()
        return due

    def _find_lanes(self, session: SqliteSession, claim: Claim, paused: frozenset[tuple[str, str]]) -> list[LaneHead]:
        """Return the lanes with ready jobs for this claim that are not paused."""
        lanes = session.db.execute(SQL["claim_lanes"]).fetchall()
        if not lanes:
            return []
        kinds, now, besides = frozenset(claim.kinds), session.now, to_json(list(claim.besides))
        return [
            (priority, rank, id_, {"queue": queue, "kind": kind, "service": service, "now": now, "besides": besides})
            for queue, kind, service, priority, rank, id_ in lanes
            if kind in kinds
            and (claim.queues is None or queue in claim.queues)
            and not (paused and paused & {("queue", queue), ("kind", kind), ("service", service)})
        ]

    def _take(self, session: SqliteSession, claim: Claim, lanes: OpenLanes) -> list[Lease]:
        taken: list[Lease] = []
        while True:
            wanted = claim.limit - len(taken)
            picked = [seq for *_, seq in islice(_merge_lanes(session, lanes), wanted)]
            leased = self._lease(session, claim, lanes, picked) if picked else []
            taken += leased
            if len(leased) == len(picked):
                return taken
            self._corruption.condemn(session, picked, sources=[State.QUEUED])

    def _lease(self, session: SqliteSession, claim: Claim, lanes: OpenLanes, picked: list[int]) -> list[Lease]:
        step = TABLE[Move.CLAIM, State.QUEUED]
        values = {
            "lease": to_duration(claim.lease),
            "incarnation": claim.incarnation,
            "claim": claim.number,
            "picked": to_json(picked),
            "grants": to_json(lanes.grants),
            "running": step.target,
            "version": claim.version,
        }
        cursor = session.past_damage(_fill_in(SQL["claim"], columns="*" if claim.whole else CLAIMED), values)
        rows = cursor.fetchall()
        data = {trigger: start_data(claim, trigger) for trigger in ("automatic", "manual")}
        session.db.execute(SQL["claim_events"], {**values, **data, "event": step.event, "now": session.now})
        return to_leases(cursor, rows, None if claim.whole else self._job)


def _merge_lanes(session: SqliteSession, lanes: OpenLanes) -> Iterator[tuple[int, int, str, int]]:
    """Merge the ready jobs of all lanes lazily. A lane is opened when its first job is next, and read no further than
    needed."""
    heads: list[tuple[Any, ...]] = [(*head, values, None, None) for *head, values in lanes.heads]
    heapq.heapify(heads)
    while heads:
        *_, values, lane, job = heapq.heappop(heads)
        if not lanes.has_room(values):
            continue
        if job is not None:
            lanes.take(values)
            yield job
        lane = session.db.execute(lanes.statement, values) if lane is None else lane
        if (following := lane.fetchone()) is not None:
            priority, rank, id_, _ = following
            heapq.heappush(heads, (priority, rank, id_, values, lane, following))


def _load_paused(session: SqliteSession) -> frozenset[tuple[str, str]]:
    """Return what is paused: 'queue', 'kind' or 'service', and its name."""
    return frozenset(session.db.execute(SQL["claim_paused"], {"now": session.now}).fetchall())


def _load_restricted(session: SqliteSession, names: Sequence[str]) -> frozenset[str]:
    if not names:
        return frozenset()
    return frozenset(
        name for (name,) in session.db.execute(SQL["services_restricted_names"], {"names": to_json(names)})
    )
