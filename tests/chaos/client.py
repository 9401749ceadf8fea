"""A client without end: asks, repeats with the same ids until the store answers, then notes what was accepted.

Run as `python -m chaos.client URL ACCEPTED SEED RATE`, until SIGTERM.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from chaos.ledger import append
from chaos.load import Order, Orders
from mulligan.errors import StoreError
from mulligan.lifecycle import State
from mulligan.records.batch import BatchRetry
from mulligan.records.job import JobFilter
from mulligan.store import open_store
from mulligan.store.store import Store

MOST_QUEUED = 50
T = TypeVar("T")


class Client:
    def __init__(self, store: Store, accepted: Path) -> None:
        self._store = store
        self._accepted = accepted
        self._published: list[str] = []

    def order(self, order: Order) -> None:
        batch = order.batch
        if batch is not None:
            _answered(lambda: self._store.create_batch(batch))
        if order.jobs:
            stored = _answered(lambda: self._store.enqueue(order.jobs))
            assert [job.id for job in stored] == [job.id for job in order.jobs]
            append({"accepted": [job.id for job in stored]}, self._accepted)
        if batch is not None:
            _answered(lambda: self._store.publish(batch.id))
            append({"published": batch.id, "is_followed": batch.on_settled is not None}, self._accepted)
            self._published.append(batch.id)

    def retry_one(self) -> None:
        """Start failed members of a batch again, once it is settled: that opens it."""
        if not self._published:
            return
        batch = self._published.pop(0)
        if not _answered(lambda: self._store.batch(batch)).state.is_settled:
            self._published.append(batch)
            return
        failed = _answered(lambda: self._store.jobs(JobFilter(batch=batch, state=State.FAILED))).jobs
        request = BatchRetry(id=f"again {batch}", batch=batch, jobs=tuple(job.id for job in failed))
        _answered(lambda: self._store.retry_members(request))

    def is_crowded(self) -> bool:
        queued = JobFilter(state="queued")
        return len(_answered(lambda: self._store.jobs(queued, limit=MOST_QUEUED)).jobs) == MOST_QUEUED


def _answered(ask: Callable[[], T]) -> T:
    """Finish what was begun: members of a draft that is not published would wait for ever."""
    while True:
        try:
            return ask()
        except StoreError:
            time.sleep(0.03)


def main(url: str, accepted: str, seed: str, rate: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    store, due = open_store(url), time.monotonic()
    client = Client(store, Path(accepted))
    for order in Orders(int(seed)):
        if stop.is_set():
            break
        client.order(order)
        client.retry_one()
        due = max(due + len(order.jobs) / float(rate), time.monotonic() - 0.1)
        stop.wait(max(0.0, due - time.monotonic()) + (0.2 if client.is_crowded() else 0.0))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
