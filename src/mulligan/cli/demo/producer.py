"""The producer: enqueues jobs at a steady rate and records the accepted ids."""

from contextlib import suppress
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
        self._produced = 0

    def produce(self, elapsed: float) -> None:
        """Enqueue the jobs that are due by now."""
        while self._produced < int(elapsed * PER_SECOND):
            self._produced += 1
            self._enqueue(self._produced)
            if self._produced % AGAIN_EVERY == 0:
                # As if a user had clicked twice.
                self._enqueue(self._produced)

    def _enqueue(self, number: int) -> None:
        # A refused job is not accepted, so it cannot be lost.
        with suppress(MulliganError):
            job = submit(number)
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
