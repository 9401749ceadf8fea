"""Deliveries: what is told is stored with the cursor of the log, and what is sent is recorded by the job that sends it.

Locks are taken in one order: the cursor, then the digests by id, then the jobs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mulligan.errors import DeliveryNotFound
from mulligan.records.admission import NewAuditEntry
from mulligan.records.delivery import (
    MOST_ITEMS,
    Delivery,
    DeliveryState,
    DigestContents,
    DigestPlan,
    Incident,
    NewDelivery,
    NotifyKeys,
    NotifyPlan,
    NotifyState,
    NotifyStep,
    Outgoing,
    SendResult,
    Undelivered,
)
from mulligan.records.job import NewJob
from mulligan.records.subscription import Channel
from mulligan.store.events import EventOperations
from mulligan.store.follow_up import Enqueue
from mulligan.store.request_admission import write_audit
from mulligan.store.rows import Record, decode_strings, from_time, to_duration, to_json, to_record, to_time
from mulligan.store.session import Session
from mulligan.store.subscriptions import to_subscription

_object = msgspec.json.Decoder(dict[str, Any]).decode


class DeliveryOperations:
    def __init__(self, enqueue: Enqueue, events: EventOperations) -> None:
        self._enqueue = enqueue
        self._events = events

    # Telling

    def notify(self, session: Session, step: NotifyStep) -> NotifyPlan | None:
        """Move the cursor and store the plan. None if another process was faster."""
        if not self._events.move_cursor(session, step.cursor, step.before, step.position):
            return None
        plan = step.plan(self._read_state(session, step.keys))
        self._write(session, plan)
        for job, reason in step.ended.items():
            session.rows("deliveries_failed", job=job, reason=reason)
        return plan

    def _read_state(self, session: Session, keys: NotifyKeys) -> NotifyState:
        return NotifyState(
            now=from_time(session.moment()),
            digests=self._lock_digests(session, keys.digests),
            incidents=self._find_incidents(session, keys.incidents),
            mails=self._count_mails(session, {to for _, to in keys.digests}),
            sequences=self._find_sequences(session, keys.sequences),
        )

    def _lock_digests(self, session: Session, keys: frozenset[tuple[str, str]]) -> dict[str, DigestPlan]:
        if not keys:
            return {}
        wanted = sorted((DigestPlan(subscription=subscription, to=to) for subscription, to in keys), key=_id)
        for digest in wanted:
            session.rows("digest_new", id=digest.id, subscription=digest.subscription, recipient=digest.to)
        rows = session.rows("digests_locked", ids=to_json([digest.id for digest in wanted]))
        return {row["id"]: _to_digest(row) for row in rows}

    def _find_incidents(self, session: Session, ids: frozenset[str]) -> dict[str, Incident]:
        rows = session.rows("incidents_named", ids=to_json(sorted(ids))) if ids else []
        return {row["id"]: _to_incident(row) for row in rows}

    def _count_mails(self, session: Session, recipients: set[str]) -> dict[str, int]:
        rows = session.rows("mails_of_hour", recipients=to_json(sorted(recipients))) if recipients else []
        return {row["recipient"]: row["number"] for row in rows}

    def _find_sequences(self, session: Session, keys: frozenset[tuple[str, str]]) -> dict[tuple[str, str], int]:
        if not keys:
            return {}
        subscriptions, subjects = (to_json(sorted(set(part))) for part in zip(*keys, strict=True))
        rows = session.rows("delivery_sequences", subscriptions=subscriptions, subjects=subjects)
        return {(row["subscription"], row["about"]): row["last"] for row in rows}

    def _write(self, session: Session, plan: NotifyPlan) -> None:
        if plan.deliveries:
            session.rows("deliveries_new", deliveries=to_json([_new_values(new) for new in plan.deliveries]))
        for incident in plan.incidents:
            session.rows("incident_write", _incident_values(incident))
        for digest in plan.digests:
            _write_digest(session, digest)
        if plan.jobs:
            self._enqueue(session, plan.jobs)

    def tags_of(self, session: Session, jobs: Sequence[str]) -> dict[str, tuple[str, ...]]:
        rows = session.rows("job_tags", ids=to_json(list(jobs)))
        return {row["id"]: decode_strings(row["tags"]) for row in rows}

    # Digests

    def list_over(self, session: Session, quiet: timedelta, pause: timedelta, limit: int) -> list[Incident]:
        values = {"quiet": to_duration(quiet), "pause": to_duration(pause), "limit": limit}
        return [_to_incident(row) for row in session.rows("incidents_over", values)]

    def end_incident(self, session: Session, incident: Incident, plan: Callable[[NotifyState], NotifyPlan]) -> bool:
        """End an incident and store what is told of its end. False if it has gone on, or was ended already."""
        keys = NotifyKeys(digests=frozenset({(incident.subscription, incident.to)}))
        state = self._read_state(session, keys)
        if not session.rows("incident_end", id=incident.id, number=incident.number):
            return False
        self._write(session, plan(state))
        return True

    def forget_incidents(self, session: Session, quiet: timedelta) -> None:
        session.rows("incidents_forget", quiet=to_duration(quiet))

    def list_due(self, session: Session, limit: int) -> list[DigestPlan]:
        return [_to_digest(row) for row in session.rows("digests_due", limit=limit)]

    def close_digest(
        self,
        session: Session,
        wanted: DigestPlan,
        most_mails: int,
        make: Callable[[DigestPlan, DigestContents], NotifyPlan],
    ) -> int:
        """Store the delivery that tells of all that waits, and say of how many events it tells. A recipient who had
        `most_mails` in the last hour gets it later."""
        rows = session.rows("digests_locked", ids=to_json([wanted.id]))
        if not rows or rows[0]["due_at"] is None or from_time(rows[0]["due_at"]) != wanted.due_at:
            return 0
        digest = _to_digest(rows[0])
        if self._count_mails(session, {digest.to}).get(digest.to, 0) >= most_mails:
            (first,) = session.rows("first_mail_of_hour", recipient=digest.to)
            _write_digest(session, replace(digest, due_at=from_time(first["created_at"]) + timedelta(hours=1)))
            return 0
        key = {"subscription": digest.subscription, "recipient": digest.to}
        items = [row["id"] for row in session.rows("delivery_items", key, limit=MOST_ITEMS + 1)]
        told = items[:MOST_ITEMS]
        plan = make(digest, DigestContents(len(told), len(items) > len(told), from_time(session.moment())))
        self._write(session, plan)
        if told:
            (delivery,) = plan.deliveries
            session.rows("deliveries_digested", digest=delivery.id, ids=to_json(told))
        return len(told)

    # Sending

    def outgoing(self, session: Session, delivery: str) -> Outgoing:
        found = self.get(session, delivery, None)
        rows = session.filtered("subscriptions", ["id = :id"], {"id": found.subscription, "limit": 1})
        subscription = to_subscription(rows[0]) if rows else None
        return Outgoing(found, subscription, from_time(session.moment()))

    def items(self, session: Session, digest: str) -> list[Delivery]:
        return [to_delivery(row) for row in session.rows("deliveries_of_digest", digest=digest, limit=MOST_ITEMS)]

    def freeze(self, session: Session, delivery: str, body: str) -> str:
        """Store what is sent, and return what was stored first."""
        rows = session.rows("delivery_freeze", id=delivery, body=body)
        return str(rows[0]["body"]) if rows else body

    def record(self, session: Session, delivery: str, result: SendResult, *, is_attempt: bool) -> bool:
        values = {"id": delivery, "state": str(result.state), "attempts": int(is_attempt)}
        values |= {name: getattr(result, name) for name in ("reason", "status", "response", "seconds")}
        return bool(session.rows("delivery_record", values))

    # The log of deliveries

    def list_all(
        self,
        session: Session,
        owner: str | None,
        limit: int,
        cursor: str | None,
        **fields: str | None,
    ) -> list[Delivery]:
        given = {name: value for name, value in {"owner": owner, **fields}.items() if value is not None}
        conditions = ["true", *(f"{name} = :{name}" for name in given)]
        conditions += ["id < :cursor"] if cursor is not None else []
        rows = session.filtered("deliveries", conditions, {**given, "cursor": cursor, "limit": limit})
        return [to_delivery(row) for row in rows]

    def get(self, session: Session, delivery: str, owner: str | None) -> Delivery:
        conditions = ["id = :id"] + ([] if owner is None else ["owner = :owner"])
        for row in session.filtered("deliveries", conditions, {"id": delivery, "owner": owner, "limit": 1}):
            return to_delivery(row)
        raise DeliveryNotFound(delivery)

    def redeliver(
        self,
        session: Session,
        delivery: str,
        owner: str | None,
        make: Callable[[Delivery], NewJob],
        entries: Sequence[NewAuditEntry],
    ) -> Delivery:
        """Send it again: the same id, the same body. One that a job is about to send, or a digest tells of, stays."""
        found = self.get(session, delivery, owner)
        job = make(found)
        write_audit(session, entries)
        rows = session.rows("delivery_again", id=found.id, job=job.id)
        if not rows:
            return found
        self._enqueue(session, [job])
        return to_delivery(rows[0])

    def send_test(self, session: Session, new: NewDelivery, job: NewJob, entries: Sequence[NewAuditEntry]) -> Delivery:
        self._write(session, NotifyPlan(deliveries=[new], jobs=[job]))
        write_audit(session, entries)
        return self.get(session, new.id, None)

    def has_old(self, session: Session, before: datetime) -> bool:
        return bool(session.rows("deliveries_old", before=to_time(before)))

    def prune(self, session: Session, before: datetime, limit: int) -> int:
        return len(session.rows("deliveries_forget", before=to_time(before), limit=limit))

    def count_undelivered(self, session: Session) -> list[Undelivered]:
        rows = session.rows("delivery_states")
        return [
            Undelivered(DeliveryState(row["state"]), Channel(row["channel"]), row["number"], row["reason"])
            for row in rows
        ]


def _id(digest: DigestPlan) -> str:
    return digest.id


def _write_digest(session: Session, digest: DigestPlan) -> None:
    moments = {"due_at": _time(digest.due_at), "last_at": _time(digest.last_at)}
    session.rows("digest_write", moments, id=digest.id, step=digest.step)


def _time(moment: datetime | None) -> int | None:
    return None if moment is None else to_time(moment)


def _new_values(new: NewDelivery) -> dict[str, Any]:
    values = asdict(replace(new, event=None))
    del values["to"]
    return {**values, "recipient": new.to, "event": None if new.event is None else to_json(new.event)}


def _incident_values(incident: Incident) -> dict[str, Any]:
    values = asdict(incident)
    values |= {"recipient": incident.to, "error_group": incident.group}
    return values | {"opened_at": to_time(incident.opened_at), "last_at": to_time(incident.last_at)}


def _to_incident(row: Record) -> Incident:
    return to_record(Incident, row, to=row["recipient"], group=row["error_group"])


def _to_digest(row: Record) -> DigestPlan:
    return to_record(DigestPlan, row, to=row["recipient"])


def to_delivery(row: Record) -> Delivery:
    event: Mapping[str, Any] | None = None if row["event"] is None else _object(row["event"])
    return to_record(
        Delivery,
        row,
        to=row["recipient"],
        state=DeliveryState(row["state"]),
        channel=Channel(row["channel"]),
        _event=event,
        _body=row["body"],
    )
