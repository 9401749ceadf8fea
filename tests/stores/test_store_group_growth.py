"""Growth by shape: a page of failure groups reads its own groups, however many others there are."""

from collections.abc import Callable
from typing import Any

import psycopg
from postgres_server import emptied
from test_store_postgres_growth import BUFFERS, FACTOR, PLANS, ROWS, reads
from test_store_sqlite_growth import steps_of
from transactions import on

from mulligan.records.failure_group import GROUP_ORDERS, GroupState
from mulligan.store.postgres import PostgresStore
from mulligan.store.sqlite import SqliteStore

FEW, MANY = 1_000, 10_000
OWNERS = 10
# Each group has a row for all owners, and one for each of some owners.
GROUPS = """
INSERT INTO mulligan_groups (
    id, scope, kind, code, error_class, title, first_seen_at, last_seen_at, failures, cost, heat, rank, document
)
SELECT 'group-' || n, CASE owner WHEN 0 THEN '' ELSE '/owner-' || owner END, 'convert', 'OFF', 'final', 'Off.',
    n, n, 1 + mod(n * 7919, 10007), 0, 1, mod(n * 104729, 10007),
    '{"sample": {"job": "j", "at": 1, "attempt": 1, "code": "OFF", "error_class": "final", "message": "", "error": ""}}'
FROM generate_series(%(from)s::bigint, %(to)s::bigint) AS n CROSS JOIN generate_series(0, %(owners)s) AS owner
"""
SQLITE_GROUPS = """
WITH RECURSIVE number (n) AS (
    SELECT :from UNION ALL SELECT n + 1 FROM number WHERE n < :to
)
INSERT INTO mulligan_groups (
    id, scope, kind, code, error_class, title, first_seen_at, last_seen_at, failures, cost, heat, rank, document
)
SELECT 'group-' || n, '', 'convert', 'OFF', 'final', 'Off.', n, n, 1 + n * 7919 % 10007, 0, 1, n * 104729 % 10007,
    '{"sample": {"job": "j", "at": 1, "attempt": 1, "code": "OFF", "error_class": "final", "message": "", "error": ""}}'
FROM number
"""


class Pages:
    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url + "?notify=off")
        self.store.migrate()

    def operations(self) -> dict[str, Callable[[Any], object]]:
        return {f"by {order}": self._page(order, None) for order in GROUP_ORDERS} | {
            "of an owner": self._page("impact", "owner-3")
        }

    def _page(self, order: str, owner: str | None) -> Callable[[Any], object]:
        wanted = {"owner": owner, "states": [GroupState.OPEN, GroupState.REGRESSED], "kind": None, "code": None}
        return lambda db: on(self.store, db).groups(**wanted, order=order, skip=0, limit=50)


def test_a_page_of_ten_thousand_groups_reads_its_own_groups(database: str) -> None:
    url = emptied(database)
    pages, found = Pages(url), {}
    with psycopg.connect(url, autocommit=True) as connection:
        made = 0
        for size in (FEW, MANY):
            connection.execute(GROUPS.encode(), {"from": made + 1, "to": size, "owners": OWNERS})
            connection.execute("VACUUM ANALYZE mulligan_groups")
            made = size
            for plan in PLANS:
                found[plan, size] = reads(url, pages, plan)
    groups, following = pages.store.groups(
        owner=None, states=[], kind=None, code=None, order="failures", skip=0, limit=50
    )
    assert (len(groups), following) == (50, 50)
    assert [group.failures for group in groups] == sorted((group.failures for group in groups), reverse=True)
    pages.store.close()
    for plan in PLANS:
        for page, few in found[plan, FEW].items():
            many = found[plan, MANY][page]
            assert few.buffers > 0, "it was measured"
            assert many.rows <= few.rows * FACTOR + ROWS, (plan, page, few, many)
            assert many.buffers <= few.buffers * FACTOR + BUFFERS, (plan, page, few, many)


def test_a_page_of_groups_reads_its_own_groups_on_sqlite() -> None:
    store = SqliteStore("sqlite:///:memory:", threaded=False)
    wanted = {"owner": None, "states": [GroupState.OPEN, GroupState.REGRESSED], "kind": None, "code": None}
    pages: dict[str, Callable[[Any], object]] = {
        order: lambda db, order=order: on(store, db).groups(**wanted, order=order, skip=0, limit=50)
        for order in GROUP_ORDERS
    }
    pages["counts"] = lambda db: on(store, db).count_groups(owner=None, kind=None, code=None)
    steps: dict[int, dict[str, int]] = {}
    made = 0
    for size in (FEW, MANY):
        values = {"from": made + 1, "to": size}
        store._database.write(lambda db, values=values: db.execute(SQLITE_GROUPS, values))
        made = size
        steps[size] = {name: steps_of(store, page) for name, page in pages.items()}
    store.close()
    # Open groups are counted by the index alone, up to a limit.
    most = {name: few * FACTOR + (10 * MANY if name == "counts" else 0) for name, few in steps[FEW].items()}
    assert all(steps[FEW].values()), "each was measured"
    assert {name: number for name, number in steps[MANY].items() if number > most[name]} == {}
