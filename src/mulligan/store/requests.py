"""Requests made by hand, each with an id of the caller's: one that was carried out is not carried out again."""

from mulligan.store.script import Statement, Steps
from mulligan.store.statements import Statements


def is_done(sql: Statements, request: str) -> Steps[bool]:
    rows = yield Statement(sql["done"], {"request": request})
    return bool(rows)
