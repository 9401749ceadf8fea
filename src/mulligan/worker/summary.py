"""What a worker did, in one line a minute; nothing while nothing happens."""

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from mulligan.failure.decision import Cancel, Fail, Park, Postpone, Release, Retry, Succeed
from mulligan.store.protocols import Outcome, Settled
from mulligan.values.clock import Clock
from mulligan.values.duration import describe

logger = logging.getLogger("mulligan.worker")

EVERY_SECONDS = 60.0

ENDS = {
    Succeed: "succeeded",
    Retry: "retried",
    Fail: "failed",
    Postpone: "snoozed",
    Park: "parked",
    Release: "released",
    Cancel: "cancelled",
}


class Summary:
    """Attempts by how they ended, as far as the store has accepted it. Only the loop's thread uses it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()
        self._did: Counter[str] = Counter()

    def count(self, outcomes: Sequence[Outcome], answers: Sequence[Settled]) -> None:
        self._did.update(_end(outcome, answer) for outcome, answer in zip(outcomes, answers, strict=True))

    def say_if_due(self, running: int) -> None:
        """Asked often. A quiet minute has no line, and the next one begins with what happens then. Nor has one with
        failed probes alone, which the next line counts: an outage has lines of its own."""
        is_due = self._clock.monotonic() - self._since >= EVERY_SECONDS
        if is_due and self._did.keys() != {ENDS[Park]}:
            self.say(running)

    def say(self, running: int) -> None:
        seconds = self._clock.monotonic() - self._since
        did, self._did, self._since = self._did, Counter(), self._clock.monotonic()
        if not did or not logger.isEnabledFor(logging.INFO):
            return
        ends = {name: did[name] for name in (*ENDS.values(), "refused") if did[name]}
        words = ", ".join(f"{number:,} {name}" for name, number in ends.items())
        fields = ends | {"running": running, "seconds": round(seconds, 1)}
        period = describe(timedelta(seconds=round(seconds)))
        logger.info("in %s: %s; %d running now", period, words, running, extra=fields)


def _end(outcome: Outcome, answer: Settled) -> str:
    if answer is Settled.REFUSED:
        return "refused"
    # A job whose outcome cannot be stored has failed, whatever it returned.
    return ENDS[Fail if answer is Settled.UNSTORABLE else type(outcome.decision)]
