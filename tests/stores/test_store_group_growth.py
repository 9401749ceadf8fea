"""Growth by shape: a page of failure groups reads its own groups, however many others there are."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from postgres_server import emptied
from test_store_postgres_growth import BUFFERS, FACTOR, PLANS, ROWS, reads
from transactions import on

from mulligan.records.failure_group import GROUP_ORDERS, GroupState
from mulligan.store.postgres import PostgresStore

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


@pytest.mark.parametrize("order", GROUP_ORDERS)
def test_every_order_has_an_index_on_sqlite(order: str, tmp_path: Any) -> None:
    from mulligan.store.groups import ORDERED_BY
    from mulligan.store.sqlite import SqliteStore

    store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db")
    plan = store._database.read(
        lambda db: db.execute(
            f"EXPLAIN QUERY PLAN SELECT id FROM mulligan_groups WHERE scope = '' ORDER BY {ORDERED_BY[order]} DESC, id"
        ).fetchall()
    )
    store.close()
    text = " ".join(str(row[-1]) for row in plan)
    assert "USING INDEX mulligan_groups_" in text or "USING COVERING INDEX mulligan_groups_" in text, text
    assert "TEMP B-TREE FOR ORDER BY" not in text, text
