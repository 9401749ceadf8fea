"""Keys of the HTTP API, and the one-time tokens that create the first of them."""

from collections.abc import Sequence
from datetime import timedelta
from hmac import compare_digest
from typing import Any

from mulligan.errors import KeyExists, KeyNotFound, SetupRefused
from mulligan.records.admission import NewAuditEntry
from mulligan.records.key import Key, NewKey, Scope, StoredKey
from mulligan.store.request_admission import write_audit
from mulligan.store.rows import Record, decode_strings, from_time, to_duration, to_json, to_record
from mulligan.store.session import Session


class ApiKeyOperations:
    def create(self, session: Session, key: NewKey, entries: Sequence[NewAuditEntry]) -> Key | None:
        """Return the key, or None if its id is taken. Raises KeyExists if the request created a key already."""
        rows = session.rows("access_key_new", _key_values(key))
        if not rows:
            made = session.rows("access_key_by_request", owner=key.owner, request=key.request)
            if made:
                raise KeyExists(made[0]["id"])
            return None
        write_audit(session, entries)
        return to_key(rows[0])

    def revoke(self, session: Session, key_id: str, owner: str | None, entries: Sequence[NewAuditEntry]) -> Key:
        """A key that is revoked already stays as it is."""
        rows = session.rows("access_key_revoke", id=key_id, owner=owner)
        if not rows:
            raise KeyNotFound(key_id)
        write_audit(session, entries)
        return to_key(rows[0])

    def find(self, session: Session, key_id: str) -> StoredKey | None:
        for row in session.rows("access_key", id=key_id):
            return StoredKey(to_key(row), row["digest"], from_time(row["now"]))
        return None

    def list_all(self, session: Session, owner: str | None, limit: int, cursor: str | None) -> list[Key]:
        conditions = ["id > :cursor"] + ([] if owner is None else ["owner = :owner"])
        values = {"owner": owner, "cursor": cursor or "", "limit": limit}
        return [to_key(row) for row in session.filtered("access_keys", conditions, values)]

    def has_usable(self, session: Session, *, is_admin: bool) -> bool:
        return bool(session.filtered("access_keys_usable", ["owner IS NULL" if is_admin else "true"], {}))

    def offer_setup(self, session: Session, digest: str, duration: timedelta) -> None:
        session.rows("setup_token_new", digest=digest, duration=to_duration(duration))

    def set_up(self, session: Session, digest: str, key: NewKey, entries: Sequence[NewAuditEntry]) -> Key | None:
        """Use up all setup tokens, if this is one of them, and create the first administrator's key."""
        rows = session.rows("setup_tokens_take")
        is_known = any(compare_digest(row["digest"], digest) and row["until"] > row["now"] for row in rows)
        if not is_known or self.has_usable(session, is_admin=True):
            raise SetupRefused
        return self.create(session, key, entries)


def _key_values(key: NewKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "owner": key.owner,
        "name": key.name,
        "scopes": to_json(key.scopes),
        "digest": key.digest,
        "last_four": key.last_four,
        "created_by": key.created_by,
        "expires_in": None if key.expires_in is None else to_duration(key.expires_in),
        "request": key.request,
    }


def to_key(row: Record) -> Key:
    return to_record(Key, row, scopes=tuple(map(Scope, decode_strings(row["scopes"]))))
