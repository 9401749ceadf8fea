"""Jobs that are over go with their history, as far as all cursors have passed it."""

from collections.abc import Sequence

from mulligan.store.rows import to_json
from mulligan.store.session import Session


def remove(session: Session, ids: Sequence[str]) -> int:
    rows = session.rows("removable", {"ids": to_json(ids)})
    gone = {"ids": to_json([row["id"] for row in rows])}
    session.rows("remove_events", gone)
    session.rows("remove", gone)
    return len(rows)
