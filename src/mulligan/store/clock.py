"""The time a store's statements go by. None where the database's own clock rules: its statements ask it themselves."""

from mulligan.store.session import Statement, Steps
from mulligan.store.statements import Statements

Now = int | None


def moment(sql: Statements, now: Now) -> Steps[int]:
    """The time as a number, for those who have to compare it."""
    if now is not None:
        return now
    (row,) = yield Statement(sql["now"], {"now": now})
    return int(row["now"])
