"""Subscriptions: who is told about which events."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import msgspec

from mulligan.errors import SubscriptionExists, SubscriptionNotFound, TooManySubscriptions
from mulligan.records.admission import NewAuditEntry
from mulligan.records.subscription import (
    MOST_OF_ADMINISTRATORS,
    MOST_PER_OWNER,
    ROTATION,
    Channel,
    EventChoice,
    NewSubscription,
    SigningSecret,
    SubscriptionRecord,
)
from mulligan.store.request_admission import write_audit
from mulligan.store.rows import Record, from_time, to_duration, to_json, to_record, to_time
from mulligan.store.session import Session

_choice = msgspec.json.Decoder(EventChoice).decode
_secrets = msgspec.json.Decoder(tuple[SigningSecret, ...]).decode

REMOVED = "the subscription was removed"
# Tables of what a subscription was told before. They end with it.
REMEMBERED = ("mulligan_incidents", "mulligan_digests")


class SubscriptionOperations:
    def create(
        self, session: Session, new: NewSubscription, entries: Sequence[NewAuditEntry], cursor: str, position: int
    ) -> SubscriptionRecord:
        """Raises SubscriptionExists or TooManySubscriptions. The cursor begins at `position` if there was none."""
        self._check_number(session, new.owner)
        rows = session.rows("subscription_new", _new_values(new))
        if not rows:
            raise SubscriptionExists(new.name)
        self.start_cursor(session, cursor, position)
        write_audit(session, entries)
        return to_subscription(rows[0])

    def _check_number(self, session: Session, owner: str | None) -> None:
        most = MOST_OF_ADMINISTRATORS if owner is None else MOST_PER_OWNER
        (found,) = session.rows("subscription_count", scope=scope_of(owner))
        if found["number"] >= most:
            raise TooManySubscriptions(owner, most)

    def declare(self, session: Session, new: NewSubscription, cursor: str, position: int) -> SubscriptionRecord:
        """Store a subscription of the code, or its new definition."""
        values = _new_values(new)
        while True:
            if rows := session.rows("subscription_declare", values):
                return to_subscription(rows[0])
            if rows := session.rows("subscription_new", values):
                self.start_cursor(session, cursor, position)
                return to_subscription(rows[0])

    def start_cursor(self, session: Session, name: str, position: int) -> None:
        """From now on no event is deleted before it was read."""
        if not session.rows("cursor_named", name=name):
            session.rows("set_cursor_shared")
            session.rows("set_cursor", name=name, position=position)

    def report_seen(self, session: Session, ids: Sequence[str]) -> None:
        session.rows("subscriptions_seen", ids=to_json(list(ids)))

    def list_all(
        self, session: Session, owner: str | None, limit: int, cursor: str | None, *, is_enabled: bool | None = None
    ) -> list[SubscriptionRecord]:
        conditions = ["id > :cursor"] + ([] if owner is None else ["owner = :owner"])
        if is_enabled:
            conditions.append("disabled_at IS NULL")
        values = {"owner": owner, "cursor": cursor or "", "limit": limit}
        return [to_subscription(row) for row in session.filtered("subscriptions", conditions, values)]

    def get(self, session: Session, subscription: str, owner: str | None) -> SubscriptionRecord:
        conditions = ["id = :id"] + ([] if owner is None else ["owner = :owner"])
        values = {"id": subscription, "owner": owner, "limit": 1}
        for row in session.filtered("subscriptions", conditions, values):
            return to_subscription(row)
        raise SubscriptionNotFound(subscription)

    def rotate(
        self, session: Session, subscription: str, owner: str | None, secret: str, entries: Sequence[NewAuditEntry]
    ) -> SubscriptionRecord:
        """The previous secret signs too for a day. One that was rotated before it ends at once."""
        found = self._lock(session, subscription, owner)
        now = from_time(session.moment())
        before = [replace(each, until=now + ROTATION) for each in found._secrets[:1]]
        write_audit(session, entries)
        return self._write(session, replace(found, _secrets=(SigningSecret(secret), *before)))

    def disable(
        self,
        session: Session,
        subscription: str,
        owner: str | None,
        because: str | None,
        entries: Sequence[NewAuditEntry] = (),
    ) -> SubscriptionRecord:
        """One that is disabled already stays as it is."""
        found = self._lock(session, subscription, owner)
        write_audit(session, entries)
        if not found.is_enabled:
            return found
        disabled = replace(found, disabled_at=from_time(session.moment()), disabled_because=because)
        return self._write(session, disabled)

    def enable(
        self, session: Session, subscription: str, owner: str | None, entries: Sequence[NewAuditEntry]
    ) -> SubscriptionRecord:
        found = self._lock(session, subscription, owner)
        write_audit(session, entries)
        return self._write(session, replace(found, disabled_at=None, disabled_because=None))

    def remove(
        self, session: Session, subscription: str, owner: str | None, entries: Sequence[NewAuditEntry]
    ) -> SubscriptionRecord:
        """What was not sent is skipped."""
        found = self._lock(session, subscription, owner)
        session.rows("subscription_remove", id=found.id)
        session.rows("subscription_drop", id=found.id, reason=REMOVED)
        for table in REMEMBERED:
            session.filtered("subscription_forget", [], {"id": found.id}, table=table)
        write_audit(session, entries)
        return found

    def _lock(self, session: Session, subscription: str, owner: str | None) -> SubscriptionRecord:
        for row in session.rows("subscription_locked", id=subscription, owner=owner):
            return to_subscription(row)
        raise SubscriptionNotFound(subscription)

    def _write(self, session: Session, changed: SubscriptionRecord) -> SubscriptionRecord:
        values = {
            "id": changed.id,
            "secrets": to_json(changed._secrets),
            "disabled_at": _time(changed.disabled_at),
            "disabled_because": changed.disabled_because,
        }
        (row,) = session.rows("subscription_write", values)
        return to_subscription(row)


def scope_of(owner: str | None) -> str:
    return "" if owner is None else f"/{owner}"


def _time(moment: datetime | None) -> int | None:
    return None if moment is None else to_time(moment)


def _new_values(new: NewSubscription) -> dict[str, Any]:
    return {
        "id": new.id,
        "owner": new.owner,
        "scope": scope_of(new.owner),
        "name": new.name,
        "is_in_code": new.is_in_code,
        "choice": to_json(asdict(new.choice)),
        "channel": str(new.channel),
        "recipient": new.to,
        "digest": None if new.digest is None else to_duration(new.digest),
        "secrets": to_json([] if new.secret is None else [SigningSecret(new.secret)]),
        "created_by": new.created_by,
    }


def to_subscription(row: Record) -> SubscriptionRecord:
    return to_record(
        SubscriptionRecord,
        row,
        to=row["recipient"],
        choice=_choice(row["choice"]),
        channel=Channel(row["channel"]),
        is_in_code=bool(row["is_in_code"]),
        _secrets=_secrets(row["secrets"]),
    )
