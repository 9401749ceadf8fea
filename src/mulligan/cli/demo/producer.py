"""The producer: enqueues jobs at a steady rate and records the accepted ids."""

import threading
from typing import Any

from mulligan import Job, MulliganError
from mulligan.cli.demo.tasks import convert, preview

PER_SECOND = 6
OWNERS = ("acme", "globex", "initech")

DAMAGED_EVERY, PREVIEW_EVERY, URGENT_EVERY, AGAIN_EVERY = 14, 5, 7, 9
FIRST_DAMAGED = 6


class Producer:
    """`accepted` are the ids whose enqueue returned. The summary checks that none is lost."""

    def __init__(self) -> None:
        self.accepted: list[str] = []
        self.duplicates = 0
        self.refused = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="producer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _produce(self) -> None:
        number = 0
        while not self._stopped.wait(1 / PER_SECOND):
            number += 1
            self._enqueue(number)
            if number % AGAIN_EVERY == 0:
                # As if a user had clicked twice.
                self._enqueue(number)

    def _enqueue(self, number: int) -> None:
        try:
            job = submit(number)
        except MulliganError:
            self.refused += 1
            return
        if job.is_duplicate:
            self.duplicates += 1
        else:
            self.accepted.append(job.id)


def submit(number: int) -> Job[Any]:
    """Enqueue job `number`. Some jobs are damaged, urgent, or have a short deadline."""
    owner = OWNERS[number % len(OWNERS)]
    # The first one early, so that a short demo shows it.
    is_damaged = number % DAMAGED_EVERY == FIRST_DAMAGED
    document = f"{'damaged' if is_damaged else 'invoice'}-{number:04}.pdf"
    if number % PREVIEW_EVERY == 0:
        return preview.options(owner=owner, dedupe=document, deadline="3s").enqueue(document)
    priority = "high" if number % URGENT_EVERY == 0 else "normal"
    return convert.options(owner=owner, dedupe=document, priority=priority).enqueue(document, mapping="invoice")
