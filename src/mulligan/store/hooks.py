"""Incoming hooks."""

from collections.abc import Sequence
from typing import Any

from mulligan.errors import HookExists, HookNotFound, TooManyHooks
from mulligan.records.admission import NewAuditEntry
from mulligan.records.hook import MOST_HOOKS_OF_ADMINISTRATORS, MOST_HOOKS_PER_OWNER, IncomingHook
from mulligan.store.request_admission import write_audit
from mulligan.store.rows import Record, to_record
from mulligan.store.session import Session
from mulligan.store.subscriptions import scope_of


class HookOperations:
    def create(self, session: Session, values: dict[str, Any], entries: Sequence[NewAuditEntry]) -> IncomingHook:
        """Raises HookExists or TooManyHooks."""
        owner: str | None = values["owner"]
        most = MOST_HOOKS_OF_ADMINISTRATORS if owner is None else MOST_HOOKS_PER_OWNER
        (found,) = session.rows("hook_count", scope=scope_of(owner))
        if found["number"] >= most:
            raise TooManyHooks(owner, most)
        rows = session.rows("hook_new", values)
        if not rows:
            raise HookExists(values["name"])
        write_audit(session, entries)
        return to_hook(rows[0])

    def list_all(self, session: Session, owner: str | None, limit: int, cursor: str | None) -> list[IncomingHook]:
        conditions = ["id > :cursor"] + ([] if owner is None else ["owner = :owner"])
        values = {"owner": owner, "cursor": cursor or "", "limit": limit}
        return [to_hook(row) for row in session.filtered("hooks", conditions, values)]

    def find(self, session: Session, hook: str) -> IncomingHook | None:
        for row in session.filtered("hooks", ["id = :id"], {"id": hook, "limit": 1}):
            return to_hook(row)
        return None

    def remove(self, session: Session, hook: str, owner: str | None, entries: Sequence[NewAuditEntry]) -> IncomingHook:
        for row in session.rows("hook_remove", id=hook, owner=owner):
            write_audit(session, entries)
            return to_hook(row)
        raise HookNotFound(hook)

    def note_call(self, session: Session, hook: str) -> None:
        session.rows("hook_called", id=hook)


def to_hook(row: Record) -> IncomingHook:
    return to_record(IncomingHook, row, group=row["error_group"], _secret=row["secret"])
