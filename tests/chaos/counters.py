"""What the stores count, as it is stored: read past the engine, to be compared with a recount from jobs and log."""

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from chaos.app import FAIR, GATEWAY
from conformance.invariants import all_batches
from mulligan.records.batch import BatchRecord
from mulligan.records.limit import LimitRecord
from mulligan.service.window import CallCounts, decode_counts
from mulligan.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    batches: list[BatchRecord]
    limits: list[LimitRecord]
    spending: dict[tuple[str, str], int]
    """Retries by owner and period."""
    epoch: int
    """Of the service, as it stands."""
    tallies: dict[str, CallCounts]
    """The call results that each worker reported of the service."""
    epochs: dict[str, int]
    """That of the service when a job was claimed last."""
    turns: dict[int, int]
    """How far a fair queue is, by priority."""
    shares: dict[str, int]
    """How far each owner is in it."""
    ranks: dict[str, int]
    """Of the jobs in it."""


def counters(store: Store, url: str) -> Counters:
    def rows(statement: str) -> list[Sequence[Any]]:
        return _rows(url, statement)

    services = rows(f"SELECT epoch FROM mulligan_services WHERE name = '{GATEWAY}'")
    reported = rows(f"SELECT worker, tally FROM mulligan_tallies WHERE service = '{GATEWAY}'")
    return Counters(
        batches=all_batches(store),
        limits=store.limits(),
        spending={(row[0], row[1]): row[2] for row in rows("SELECT owner, period, retries FROM mulligan_spending")},
        epoch=services[0][0] if services else 0,
        tallies={row[0]: decode_counts(row[1]) for row in reported},
        epochs=dict(rows(f"SELECT id, service_epoch FROM mulligan_jobs WHERE service = '{GATEWAY}'")),  # type: ignore[arg-type]
        turns=dict(rows(f"SELECT priority, rank FROM mulligan_turns WHERE queue = '{FAIR}'")),  # type: ignore[arg-type]
        shares=dict(rows(f"SELECT owner, rank FROM mulligan_shares WHERE queue = '{FAIR}'")),  # type: ignore[arg-type]
        ranks=dict(rows(f"SELECT id, rank FROM mulligan_jobs WHERE queue = '{FAIR}'")),  # type: ignore[arg-type]
    )


def _rows(url: str, statement: str) -> list[Sequence[Any]]:
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            return connection.execute(statement).fetchall()
    with psycopg.connect(url) as server:
        return list(server.execute(statement.encode()).fetchall())
