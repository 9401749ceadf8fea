"""The producer: enqueues jobs at a steady rate and records the accepted ids."""

from contextlib import suppress
from typing import Any

from mulligan import App, Job, MulliganError
from mulligan.cli.demo import tasks
from mulligan.lifecycle import LIVE

PER_SECOND = 6
OWNERS = ("acme", "globex", "initech")

DAMAGED_EVERY, PREVIEW_EVERY, URGENT_EVERY, AGAIN_EVERY = 14, 5, 7, 9
FIRST_DAMAGED = 6
PREVIEW_DEADLINE = "3s"
# Of the jobs of impatient users, these are enqueued: a backlog is worked off while new jobs arrive.
SENT_ANYWAY = 3
# They are patient again when so few jobs are unfinished.
FEW = 3


class Producer:
    """`accepted` are the ids whose enqueue returned. The summary checks that none is lost. Above `patience` unfinished
    jobs, fewer are enqueued until the backlog is worked off."""

    def __init__(
        self, app: App = tasks.app, *, preview_deadline: str = PREVIEW_DEADLINE, patience: int | None = None
    ) -> None:
        self._app, self._preview_deadline, self._patience = app, preview_deadline, patience
        self.accepted: list[str] = []
        self.duplicates = 0
        self._produced = 0
        self._was_backlogged = False

    def produce(self, elapsed: float) -> None:
        """Enqueue the jobs that are due by now."""
        while self._produced < int(elapsed * PER_SECOND):
            self._produced += 1
            if self._produced % SENT_ANYWAY and self._is_backlogged():
                continue
            self._enqueue(self._produced)
            if self._produced % AGAIN_EVERY == 0:
                # As if a user had clicked twice.
                self._enqueue(self._produced)

    def _is_backlogged(self) -> bool:
        if self._patience is None:
            return False
        states = self._app.counts().groups
        unfinished = sum(states.get(state, 0) for state in LIVE)
        self._was_backlogged = unfinished > (FEW if self._was_backlogged else self._patience)
        return self._was_backlogged

    def _enqueue(self, number: int) -> None:
        # A refused job is not accepted, so it cannot be lost.
        with suppress(MulliganError):
            job = submit(number, self._app, preview_deadline=self._preview_deadline)
            if job.is_duplicate:
                self.duplicates += 1
            else:
                self.accepted.append(job.id)


def submit(number: int, app: App = tasks.app, *, preview_deadline: str = PREVIEW_DEADLINE) -> Job[Any]:
    """Enqueue job `number`. Some jobs are damaged, urgent, or have a short deadline."""
    owner = OWNERS[number % len(OWNERS)]
    # The first one early, so that a short demo shows it.
    is_damaged = number % DAMAGED_EVERY == FIRST_DAMAGED
    document = f"{'damaged' if is_damaged else 'invoice'}-{number:04}.pdf"
    if number % PREVIEW_EVERY == 0:
        return app.tasks["preview"].options(owner=owner, dedupe=document, deadline=preview_deadline).enqueue(document)
    priority = "high" if number % URGENT_EVERY == 0 else "normal"
    convert = app.tasks["convert"]
    return convert.options(owner=owner, dedupe=document, priority=priority).enqueue(document, mapping="invoice")
