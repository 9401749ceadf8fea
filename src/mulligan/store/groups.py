"""Failure groups: add what a page of the log says, list them, and store what people decide about them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import structs

from mulligan.errors import GroupNotFound
from mulligan.lifecycle import GROUP_EVENTS
from mulligan.records.failure_group import (
    FailureCount,
    FailureGroup,
    FailureSample,
    GroupDecision,
    GroupDocument,
    GroupRow,
    GroupState,
    NameCount,
    Names,
    decayed,
    decode_document,
    document_json,
    has_regressed,
    impact_of,
    is_new,
    is_rising,
    merge,
    rank_of,
)
from mulligan.records.folded import FailedIn, JobChange, JobEnd
from mulligan.records.statistics import LAST_ATTEMPT, MINUTE, RECOVERED, UNRECOVERED, Key, Tally, add_to, new_tally
from mulligan.store.events import event_values
from mulligan.store.rows import Record, from_time, from_time_or_none, to_duration, to_json, to_time
from mulligan.store.session import Session

# Of one group. Further owners are counted in the row of all owners only.
MOST_OWNER_ROWS = 10_000
MOST_OWNERS_SHOWN = 20
# Groups that are counted.
MOST_COUNTED = 10_000
# The column of each order.
ORDERED_BY = {"impact": "rank", "last_seen": "last_seen_at", "first_seen": "first_seen_at", "failures": "failures"}

_KEPT = ("id", "scope", "kind", "code", "error_class", "title", "first_seen_at", "last_seen_at", "failures", "cost")


class Counts(NamedTuple):
    jobs: int = 0
    failed: int = 0
    recovered: int = 0

    def plus(self, jobs: int = 0, failed: int = 0, recovered: int = 0) -> "Counts":
        return Counts(self.jobs + jobs, self.failed + failed, self.recovered + recovered)


class Replay(NamedTuple):
    """Whether the log is folded again, and the time from which on it is complete: what is older stays as it is."""

    is_on: bool
    since: int


class GroupOperations:
    def apply(
        self, session: Session, rows: Mapping[tuple[str, str], GroupRow], jobs: Mapping[str, JobChange], replay: Replay
    ) -> dict[Key, Tally]:
        """Add to the groups. Return which jobs have recovered and which have not, for the statistics."""
        kept = self._kept(session, rows, jobs, replay)
        self._merge(session, [row for row in rows.values() if row.id not in kept])
        return self._advance(session, jobs, kept)

    def _kept(
        self, session: Session, rows: Mapping[tuple[str, str], GroupRow], jobs: Mapping[str, JobChange], replay: Replay
    ) -> set[str]:
        """The groups that began before the log is complete: a replay leaves them alone."""
        if not replay.is_on or not replay.since:
            return set()
        ids = {id_ for id_, _ in rows} | {id_ for change in jobs.values() for id_ in change.groups}
        known = self._known(session, [(id_, "") for id_ in ids])
        whole = {id_: row for (id_, _), row in known.items() if row["failures"]}
        begun = {id_: row["first_seen_at"] for id_, row in whole.items()}
        begun |= {id_: row.first_seen_at for (id_, _), row in rows.items() if id_ not in begun}
        return {id_ for id_, first in begun.items() if first < replay.since}

    def _known(self, session: Session, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Record]:
        wanted = to_json([{"id": id_, "scope": scope} for id_, scope in keys])
        return {(row["id"], row["scope"]): row for row in session.rows("groups_known", keys=wanted)}

    def _merge(self, session: Session, rows: Sequence[GroupRow]) -> None:
        if not rows:
            return
        known = self._known(session, [(row.id, row.scope) for row in rows])
        owners = {row.id: _number(known.get((row.id, "")), "owners") for row in rows}
        written = []
        for row in sorted(rows, key=lambda row: (row.id, row.scope), reverse=True):
            before = known.get((row.id, row.scope))
            if row.scope and before is None:
                if owners[row.id] >= MOST_OWNER_ROWS:
                    continue
                owners[row.id] += 1
            written.append(_row_values(row, before, owners[row.id] if not row.scope else 0))
        session.rows("groups_write", rows=to_json(written))

    def _advance(self, session: Session, jobs: Mapping[str, JobChange], kept: set[str]) -> dict[Key, Tally]:
        """Follow each job: which groups it failed in, whether it has ended with one, and whether it has recovered."""
        if not jobs:
            return {}
        stored: dict[str, dict[str, Record]] = {}
        for row in session.rows("failing_known", jobs=to_json(list(jobs))):
            stored.setdefault(row["job"], {})[row["error_group"]] = row
        counts: dict[tuple[str, str], Counts] = {}
        followed: dict[Key, Tally] = {}
        written: list[Record] = []
        for job, change in jobs.items():
            before = {id_: row for id_, row in stored.get(job, {}).items() if id_ not in kept}
            after = _advance_job(job, change, before, kept)
            _count(counts, change, before, after)
            _add_failed(followed, change, before)
            if change.success is not None and after:
                _add_recovery(followed, change, after)
            elif after:
                written += after.values()
        self._write(session, written, [job for job, change in jobs.items() if change.success and job in stored], counts)
        return followed

    def _write(
        self,
        session: Session,
        written: Sequence[Record],
        succeeded: Sequence[str],
        counts: Mapping[tuple[str, str], Counts],
    ) -> None:
        if written:
            session.rows("failing_write", rows=to_json(written))
        if succeeded:
            session.rows("failing_drop", jobs=to_json(succeeded))
        changed = [
            {"id": id_, "scope": scope, **number._asdict()} for (id_, scope), number in counts.items() if any(number)
        ]
        if changed:
            session.rows("groups_count", rows=to_json(changed))

    # Reading

    def search(
        self,
        session: Session,
        *,
        owner: str | None,
        states: Sequence[GroupState],
        kind: str | None,
        code: str | None,
        order: str,
        skip: int,
        limit: int,
    ) -> tuple[list[FailureGroup], int | None]:
        """Return the groups of a page, and how many to skip for the next one."""
        conditions, values = _conditions(owner, kind, code)
        values |= {"limit": limit + 1, "skip": skip}
        values["states"] = to_json([str(state) for state in states or GroupState])
        found = [row["id"] for row in session.filtered("groups_listed", conditions, values, order=ORDERED_BY[order])]
        return self.find(session, found[:limit], owner), skip + limit if len(found) > limit else None

    def count(self, session: Session, owner: str | None, kind: str | None, code: str | None) -> dict[str, int]:
        """Return how many groups are in each state. Counting stops at a limit."""
        conditions, values = _conditions(owner, kind, code)
        (total,) = session.filtered("groups_counted", conditions, values | {"most": MOST_COUNTED})
        decided = {row["state"]: row["number"] for row in session.filtered("groups_decided", conditions, values)}
        decided.pop(GroupState.OPEN, None)
        return {str(GroupState.OPEN): max(0, total["number"] - sum(decided.values())), **decided}

    def find(self, session: Session, ids: Sequence[str], owner: str | None) -> list[FailureGroup]:
        rows = session.rows("groups_whole", ids=to_json(list(ids)), scope=_scope(owner))
        found = {row["id"]: _to_group(row, session.moment(), owner) for row in rows}
        return [found[id_] for id_ in ids if id_ in found]

    def owners(self, session: Session, id_: str) -> list[NameCount]:
        """Return the owners with most failures in a group."""
        rows = session.rows("groups_owners", id=id_, limit=MOST_OWNERS_SHOWN)
        return [
            NameCount(
                row["scope"][1:], row["failures"], from_time(row["first_seen_at"]), from_time(row["last_seen_at"])
            )
            for row in rows
        ]

    def decide(self, session: Session, decision: GroupDecision) -> FailureGroup:
        rows = session.rows("groups_failures", id=decision.group)
        if not rows:
            raise GroupNotFound(decision.group)
        below = None if decision.growth is None else round(rows[0]["failures"] * decision.growth)
        until = None if decision.until is None else to_duration(decision.until)
        values = {
            "id": decision.group,
            "decision": str(decision.decision),
            "actor": decision.actor,
            "reason": decision.reason,
            "until": until,
            "below": below,
        }
        session.rows("groups_decide", values)
        session.rows("event", _event(decision, below))
        (found,) = self.find(session, [decision.group], None)
        return found

    def prune(self, session: Session, before: datetime, limit: int) -> int:
        ids = [row["id"] for row in session.rows("groups_old", before=to_time(before), limit=limit)]
        if ids:
            session.rows("groups_forget", ids=to_json(ids))
            session.rows("failing_forget", ids=to_json(ids))
        return len(ids)


def forget_samples(session: Session, owner: str) -> None:
    """Take the failures of an owner out of the groups of all owners. The counts stay."""
    for row in session.rows("groups_sampled", owner=owner):
        document = decode_document(row["document"])
        if document.sample.owner == owner:
            document.sample = structs.replace(document.sample, job="", message="", error="", owner="")
            session.rows("groups_document", id=row["id"], document=document_json(document))


def _number(row: Record | None, name: str) -> int:
    return int(row[name]) if row else 0


def _row_values(row: GroupRow, before: Record | None, owners: int) -> Record:
    regressed_at = None
    if before is not None and before["failures"]:
        row = merge(_stored(before), row)
    if before is not None and before["decision"] == GroupState.RESOLVED and has_regressed(row, before["decided_at"]):
        regressed_at = row.last_seen_at
    values = {name: getattr(row, name) for name in (*_KEPT, "heat")}
    values["rank"] = rank_of(row.heat, owners, row.last_seen_at)
    return values | {"document": document_json(row.document), "owners": owners, "regressed_at": regressed_at}


def _stored(row: Record) -> GroupRow:
    return GroupRow(**{name: row[name] for name in _KEPT}, heat=row["heat"], document=decode_document(row["document"]))


def _advance_job(job: str, change: JobChange, before: Mapping[str, Record], kept: set[str]) -> dict[str, Record]:
    """The rows of a job after this page, by group."""
    after = {id_: dict(row) for id_, row in before.items()}
    for id_, failed in change.groups.items():
        if id_ not in kept:
            after[id_] = _failing(job, change.owner, id_, failed, after.get(id_))
    if change.is_reset or change.ends_with or change.success:
        for row in after.values():
            row["is_failed"] = False
    if change.ends_with in after:
        after[change.ends_with or ""]["is_failed"] = True
    return after


def _failing(job: str, owner: str, id_: str, failed: FailedIn, known: Record | None) -> Record:
    return {
        "job": job,
        "error_group": id_,
        "owner": owner,
        "code": failed.code,
        "since": known["since"] if known else failed.since,
        "last_at": failed.last_at,
        "is_failed": bool(known and known["is_failed"]),
    }


def _count(
    counts: dict[tuple[str, str], Counts], change: JobChange, before: Mapping[str, Record], after: Mapping[str, Record]
) -> None:
    for id_, row in after.items():
        known = before.get(id_)
        failed = int(row["is_failed"]) - int(bool(known and known["is_failed"]))
        for scope in ("", f"/{change.owner}") if change.owner else ("",):
            number = counts.get((id_, scope), Counts())
            counts[id_, scope] = number.plus(int(known is None), failed, int(change.success is not None))


def _add_recovery(followed: dict[Key, Tally], change: JobChange, rows: Mapping[str, Record]) -> None:
    """Count one job that has recovered, by the code of its last failure."""
    assert change.success is not None
    last = max(rows.values(), key=lambda row: (row["last_at"], row["error_group"]))
    since = min(row["since"] for row in rows.values())
    _add_end(followed, change.success, RECOVERED, change.owner, last["code"], since)


def _add_failed(followed: dict[Key, Tally], change: JobChange, before: Mapping[str, Record]) -> None:
    """Count each time that a job failed for good after other failures, by the codes of these."""
    for end in change.failed:
        earlier = {id_: FailedIn(row["code"], row["since"], row["last_at"]) for id_, row in before.items()}
        for id_, failed in end.earlier.items():
            earlier[id_] = failed._replace(since=earlier.get(id_, failed).since)
        since = min((failed.since for failed in earlier.values()), default=end.at)
        for code in sorted({failed.code for failed in earlier.values()}):
            _add_end(followed, end, UNRECOVERED, change.owner, code, since)


def _add_end(followed: dict[Key, Tally], end: JobEnd, outcome: str, owner: str, code: str, since: int) -> None:
    minute = end.at - end.at % (MINUTE * 1_000_000)
    attempt = min(end.attempt, LAST_ATTEMPT)
    key = Key(MINUTE, minute, end.kind, owner, end.service, outcome, code, attempt)
    add_to(followed.setdefault(key, new_tally()), max(end.at - since, 0) / 1e6, 0)


def _conditions(owner: str | None, kind: str | None, code: str | None) -> tuple[list[str], dict[str, Any]]:
    wanted = {name: value for name, value in (("kind", kind), ("code", code)) if value is not None}
    return ["true", *(f"own.{name} = :{name}" for name in wanted)], {**wanted, "scope": _scope(owner)}


def _scope(owner: str | None) -> str:
    return "" if owner is None else f"/{owner}"


def _impact(row: Record, owners: int, now: int, owner: str | None) -> float:
    return impact_of(decayed(row["heat"], max(now - row["last_seen_at"], 0)), owners if owner is None else 1)


def _to_group(row: Record, now: int, owner: str | None) -> FailureGroup:
    document: GroupDocument = decode_document(row["document"])
    sample = {name: value for name, value in _fields(document.sample).items() if name != "owner"}
    is_admin = owner is None
    return FailureGroup(
        **{name: row[name] for name in ("id", "title", "kind", "code", "error_class", "failures", "jobs", "failed")},
        state=GroupState(row["state"]),
        is_new=is_new(row["first_seen_at"], now),
        is_rising=is_rising(document.hours, row["first_seen_at"], now),
        impact=_impact(row, row["all_owners"], now, owner),
        first_seen_at=from_time(row["first_seen_at"]),
        last_seen_at=from_time(row["last_seen_at"]),
        recovered=row["recovered"],
        cost=row["cost"],
        owners=row["all_owners"] if is_admin else 1,
        sample=FailureSample(**sample | {"at": from_time(document.sample.at)}),
        kinds=_names(document.kinds),
        services=_names(document.services),
        versions=_names({name: seen for name, seen in document.versions.items() if name}),
        more=document.more,
        hours=_buckets(document.hours),
        days=_buckets(document.days),
        decided_at=from_time_or_none(row["decided_then"]),
        # An owner sees no people.
        decided_by=row["decided_by_whom"] if is_admin else None,
        reason=row["decided_why"] if is_admin else None,
        ignored_until=from_time_or_none(row["until"]),
        ignored_below=row["below"] if is_admin else None,
        regressed_at=from_time_or_none(row["back_at"]),
    )


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _names(names: Names) -> tuple[NameCount, ...]:
    newest = sorted(names.items(), key=lambda each: (-each[1].last, each[0]))
    return tuple(NameCount(name, seen.number, from_time(seen.first), from_time(seen.last)) for name, seen in newest)


def _buckets(buckets: Mapping[int, tuple[int, int]]) -> tuple[FailureCount, ...]:
    return tuple(FailureCount(from_time(at), *buckets[at]) for at in sorted(buckets))


def _event(decision: GroupDecision, below: int | None) -> dict[str, Any]:
    data: dict[str, Any] = {"what": "group", "name": decision.group}
    if decision.until is not None:
        data["for"] = decision.until.total_seconds()
    if below is not None:
        data["below"] = below
    if decision.reason:
        data["reason"] = decision.reason
    return event_values(GROUP_EVENTS[decision.decision], request=decision.id, actor=decision.actor, data=data)
