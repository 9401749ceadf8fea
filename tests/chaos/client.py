"""A client without end: enqueues, repeats with the same ids until the store answers, then notes what was accepted.

Run as `python -m chaos.client URL ACCEPTED SEED RATE`, until SIGTERM.
"""

import json
import random
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

from chaos.app import MAX_ATTEMPTS
from chaos.ledger import append
from mulligan.clock import Ids, SystemClock
from mulligan.errors import StoreError
from mulligan.job import JobFilter, NewJob
from mulligan.store import open_store

MOST_PER_CALL = 12
MOST_QUEUED = 50
KINDS = {"quick": 18, "plain": 8, "slow": 40, "heavy": 16, "flaky": 10, "doomed": 4, "refused": 4}


class Jobs:
    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._ids = Ids(SystemClock(), self._draw)
        self._number = 0

    def some(self) -> list[NewJob]:
        return [self._one() for _ in range(self._draw.randint(1, MOST_PER_CALL))]

    def _one(self) -> NewJob:
        self._number += 1
        (kind,) = self._draw.choices(list(KINDS), list(KINDS.values()))
        arguments = {"number": self._number}
        if kind in ("slow", "heavy"):
            arguments["milliseconds"] = self._draw.randint(50, 500)
        if kind == "flaky":
            arguments["failures"] = self._draw.randint(1, MAX_ATTEMPTS - 1)
        delay = timedelta(milliseconds=self._draw.choice([0, 0, 0, 50]))
        return NewJob(
            id=self._ids(), kind=kind, arguments=json.dumps(arguments), max_attempts=MAX_ATTEMPTS, delay=delay
        )


def main(url: str, accepted: str, seed: str, rate: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    jobs, store, due = Jobs(int(seed)), open_store(url), time.monotonic()
    while not stop.is_set():
        batch = jobs.some()
        while not stop.is_set():
            try:
                stored = store.enqueue(batch)
                crowded = len(store.jobs(JobFilter(state="queued"), limit=MOST_QUEUED).jobs) == MOST_QUEUED
            except StoreError:
                stop.wait(0.03)
                continue
            assert [job.id for job in stored] == [job.id for job in batch]
            append({"accepted": [job.id for job in stored]}, Path(accepted))
            break
        due = max(due + len(batch) / float(rate), time.monotonic() - 0.1)
        stop.wait(max(0.0, due - time.monotonic()) + (0.2 if crowded else 0.0))
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
