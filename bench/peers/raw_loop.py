"""The upper bound: the PostgreSQL store's own claim and settle in a bare loop, 500 jobs a round, no worker around.

No decoding, no body, no promotion, no heartbeat, one connection. The values below follow `claim.sql` and
`settle_succeeded.sql`.
"""

import signal
from collections.abc import Sequence
from typing import Any

import psycopg

from bench.lineup import Entry
from bench.marks import given
from bench.peer import Peer
from bench.peers.mulligan_app import Mulligan, location, url_of
from mulligan.store.postgres.claim import claim_statement
from mulligan.store.postgres.session import BEGIN_ASYNCHRONOUS, SEPARATOR, SQL
from mulligan.store.rows import CLAIM_COLUMNS

BATCH = 500
INCARNATION = "raw"
ID, ATTEMPT = CLAIM_COLUMNS.index("id"), CLAIM_COLUMNS.index("attempt")


def claim(connection: psycopg.Connection[Any], number: int) -> list[tuple[str, int]]:
    values = {
        "incarnation": INCARNATION,
        "claim": number,
        "now": None,
        "kinds": ["succeed"],
        "queues": None,
        "limit": BATCH,
        "lease": 60_000_000,
        "running": "running",
        "event": "job.claimed",
        "version": None,
        "grants": "[]",
        "automatic": "{}",
        "manual": "{}",
    }
    connection.execute(BEGIN_ASYNCHRONOUS)
    cursor = connection.cursor(binary=True).execute(claim_statement("claim", source="picked"), values)
    claimed = [(row[ID], row[ATTEMPT]) for row in cursor]
    connection.execute("COMMIT")
    return claimed


def settle(connection: psycopg.Connection[Any], number: int, claimed: Sequence[tuple[str, int]]) -> None:
    def same(value: object) -> str:
        return SEPARATOR.join([str(value)] * len(claimed))

    values = {
        "ids": SEPARATOR.join(job for job, _ in claimed),
        "attempts": SEPARATOR.join(str(attempt) for _, attempt in claimed),
        "incarnations": same(INCARNATION),
        "claims": same(number),
        "settled_by": same(INCARNATION),
        "results": same("null"),
        "data": same("{}"),
        "separator": SEPARATOR,
        "now": None,
        "target": "succeeded",
        "event": "job.succeeded",
    }
    connection.cursor(binary=True).execute(SQL["settle_succeeded"], values).fetchall()


def adapt(entry: Entry) -> Peer:
    return Mulligan(entry)


def work(entry: Entry) -> None:
    marks = given()
    done, number = 0, 0
    with psycopg.connect(url_of(location(entry)), autocommit=True) as connection:
        while True:
            number += 1
            claimed = claim(connection, number)
            if not claimed:
                signal.pause()
            for mark in range(done, done + len(claimed)):
                marks.succeed(mark)
            done += len(claimed)
            settle(connection, number, claimed)
