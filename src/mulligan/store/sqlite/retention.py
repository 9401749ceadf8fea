"""Jobs that are over go with their history, as far as all cursors have passed it."""

from collections.abc import Sequence

from mulligan.store.rows import to_json
from mulligan.store.session import Statement, Steps
from mulligan.store.sqlite.play import SQL


def removing(ids: Sequence[str]) -> Steps[int]:
    rows = yield Statement(SQL["removable"], {"ids": to_json(ids)})
    gone = {"ids": to_json([row["id"] for row in rows])}
    yield Statement(SQL["remove_events"], gone)
    yield Statement(SQL["remove"], gone)
    return len(rows)
