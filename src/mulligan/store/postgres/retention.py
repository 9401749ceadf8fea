"""Jobs that are over go with their history, as far as all cursors have passed it."""

from collections.abc import Sequence

from mulligan.store.session import Session


def remove(session: Session, ids: Sequence[str]) -> int:
    (row,) = session.rows("remove", {"ids": list(ids)})
    return int(row["number"])
