"""Forgetting an owner: its jobs are deleted, then all other rows about it, in steps of a limited size.

The operation remembers in its cursors what is being deleted, and how far that has come.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from mulligan.records.redrive import JOBS, PATIENCE, Redrive, RedriveState, end
from mulligan.store.groups import forget_samples
from mulligan.store.redrives import redrive_values, write_progress
from mulligan.store.rows import from_time, to_json, to_time
from mulligan.store.session import Session

Purge = Callable[[Session, str, int], int]

# Rows that one step looks at.
PAGE = 10_000
# Later than all jobs, also those that came before the clock was set back.
ALWAYS = 2**63 - 1


class Part(NamedTuple):
    """A table that is read in the order of `key`. Of the rows `within`, those that are `own` are deleted."""

    name: str
    table: str
    key: str
    within: str
    own: str


EVENTS = Part("events", "mulligan_events", "{{event_order}}", within="job = ''", own="owner = :owner")
PARTS = (
    EVENTS,
    # Not one that has members: they came later, or cannot be read.
    Part(
        "batches",
        "mulligan_batches",
        "id",
        within="true",
        own="owner = :owner AND NOT EXISTS (SELECT 1 FROM mulligan_jobs WHERE batch = mulligan_batches.id)",
    ),
    Part("requests", "mulligan_requests", "id", within="owner = '/' || :owner::text", own="true"),
    # Its subscriptions, and what others were told about its jobs.
    Part("deliveries", "mulligan_deliveries", "id", within="true", own="owner = :owner OR about_owner = :owner"),
    # What the administrator was told about the owner's jobs and batches.
    Part("answers", "mulligan_requests", "id", within="owner = ''", own="strpos(answer, :named) > 0"),
)
# Tables with few rows of one owner.
SMALL = {
    "mulligan_spending": "owner = :owner",
    "mulligan_submissions": "owner = :owner",
    "mulligan_shares": "owner = :owner",
    "mulligan_keys": "owner = :owner",
    "mulligan_groups": "scope = '/' || :owner::text",
    "mulligan_statistics": "owner = :owner",
    "mulligan_subscriptions": "owner = :owner",
    "mulligan_incidents": "owner = :owner",
    "mulligan_hooks": "owner = :owner",
    "mulligan_limits": "gate = 'owner/' || :owner::text",
    "mulligan_operations": "owner = :owner AND id <> :id",
}


class ForgetOperations:
    """`purge` deletes ended jobs of an owner whose events all readers have read."""

    def __init__(self, purge: Purge) -> None:
        self._purge = purge

    def forget(self, session: Session, redrive: Redrive, limit: int, damaged: int) -> Redrive | None:
        if not session.rows("redrive_locked", redrive_values(redrive)):
            return None
        part = next((part for part in PARTS if part.name in redrive.course.cursors), None)
        if part is None:
            after = self._delete_jobs(session, redrive, limit, damaged)
        else:
            after = self._delete_page(session, redrive, part, damaged)
        return after and write_progress(session, after)

    def _delete_jobs(self, session: Session, redrive: Redrive, limit: int, damaged: int) -> Redrive | None:
        purged = self._purge(session, _owner(redrive), limit)
        after = replace(redrive, purged=redrive.purged + purged)
        if purged < limit and not self._has_to_wait(session, redrive, damaged):
            return _read_on(after, PARTS[0].name)
        return after if purged else None

    def _has_to_wait(self, session: Session, redrive: Redrive, damaged: int) -> bool:
        """Whether jobs are left: running, or with events that a reader has not read. An owner whose jobs keep coming
        does not keep the operation from its end."""
        until = to_time(redrive.began_at + PATIENCE)
        return self._count_left(session, redrive, until=until, most=damaged + 1) > damaged

    def _count_left(self, session: Session, redrive: Redrive, *, until: int, most: int) -> int:
        (left,) = session.rows("forget_left", owner=_owner(redrive), until=until, limit=most)
        return int(left["number"])

    def _delete_page(self, session: Session, redrive: Redrive, part: Part, damaged: int) -> Redrive | None:
        values = {"owner": _owner(redrive), "after": _after(redrive, part), "limit": PAGE}
        (page,) = session.filtered("forget_page", [part.within], values, table=part.table, key=part.key)
        if page["number"]:
            values |= {"last": page["last"], "named": _named(redrive)}
            if part is EVENTS and not self._can_delete_events(session, values):
                return None
            conditions = [part.within, part.own, f"{part.key} > :after", f"{part.key} <= :last"]
            session.filtered("forget_rows", conditions, values, table=part.table)
        if page["number"] == PAGE:
            return _read_on(redrive, part.name, str(page["last"]))
        for following in PARTS[PARTS.index(part) + 1 :]:
            return _read_on(redrive, following.name)
        # Jobs may have come since the last was deleted.
        is_again = self._has_to_wait(session, redrive, damaged)
        return _read_on(redrive, JOBS) if is_again else self._end(session, redrive, damaged)

    def _can_delete_events(self, session: Session, values: dict[str, Any]) -> bool:
        """Tell readers that events of this page are deleted. Return False if one of them was not read."""
        session.rows("prune_lock")
        (found,) = session.rows("forget_events", values)
        if found["read"] is not None and found["own"] > found["read"]:
            return False
        if found["own"]:
            session.rows("note_pruned", position=found["own"])
        return True

    def _end(self, session: Session, redrive: Redrive, damaged: int) -> Redrive:
        values = {"owner": _owner(redrive), "id": redrive.id}
        forget_samples(session, _owner(redrive))
        for table, condition in SMALL.items():
            session.filtered("forget_rows", [condition], values, table=table)
        because = _describe_left(self._count_left(session, redrive, until=ALWAYS, most=PAGE), damaged)
        return end(redrive, RedriveState.DONE, from_time(session.moment()), because=because)


def _owner(redrive: Redrive) -> str:
    return redrive.filter.owner or ""


def _named(redrive: Redrive) -> str:
    """How a stored answer names the owner."""
    return to_json({"owner": _owner(redrive)})[1:-1]


def _after(redrive: Redrive, part: Part) -> str | int:
    after = redrive.course.cursors[part.name]
    return int(after or 0) if part is EVENTS else after


def _read_on(redrive: Redrive, part: str, after: str = "") -> Redrive:
    return replace(redrive, course=replace(redrive.course, cursors={part: after}))


def _describe_left(number: int, damaged: int) -> str | None:
    if not number:
        return None
    damaged = min(damaged, number)
    parts = [f"{damaged:,} cannot be read"] if damaged else []
    parts += [f"{number - damaged:,} came later"] if number > damaged else []
    return f"{number:,} {'job' if number == 1 else 'jobs'} stayed: {', '.join(parts)}"
