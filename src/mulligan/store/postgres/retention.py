"""Jobs that are over go with their history, as far as all cursors have passed it."""

from collections.abc import Sequence

from mulligan.store.postgres.play import SQL
from mulligan.store.session import Statement, Steps


def removing(ids: Sequence[str]) -> Steps[int]:
    (row,) = yield Statement(SQL["remove"], {"ids": list(ids)})
    return int(row["number"])
