"""Sessions of the dashboard, and the one-time links that begin them."""

from collections.abc import Sequence
from datetime import timedelta

from mulligan.records.admission import NewAuditEntry
from mulligan.records.key import StoredKey
from mulligan.records.web_session import WebSession
from mulligan.store.api_keys import to_key
from mulligan.store.request_admission import write_audit
from mulligan.store.rows import from_time, to_duration
from mulligan.store.session import Session


class WebSessionOperations:
    def begin(self, session: Session, digest: str, key_id: str, entries: Sequence[NewAuditEntry]) -> None:
        session.rows("web_session_new", session=digest, key=key_id)
        write_audit(session, entries)

    def find(self, session: Session, digest: str) -> WebSession | None:
        for row in session.rows("web_session", session=digest):
            stored = StoredKey(to_key(row), row["digest"], from_time(row["now"]))
            return WebSession(stored, from_time(row["begun_at"]), from_time(row["used_at"]))
        return None

    def note_use(self, session: Session, digest: str) -> None:
        session.rows("web_session_used", session=digest)

    def end(self, session: Session, digest: str, entries: Sequence[NewAuditEntry]) -> None:
        if session.rows("web_session_end", session=digest):
            write_audit(session, entries)

    def offer_link(
        self, session: Session, digest: str, key_id: str, duration: timedelta, entries: Sequence[NewAuditEntry]
    ) -> None:
        session.rows("sign_in_link_new", digest=digest, key=key_id, duration=to_duration(duration))
        write_audit(session, entries)

    def take_link(self, session: Session, digest: str) -> str | None:
        """Use up the link. Return the id of its key, or None if there is no such link, or it is too old."""
        rows = session.rows("sign_in_link_take", digest=digest)
        return rows[0]["key"] if rows and rows[0]["until"] > rows[0]["now"] else None
