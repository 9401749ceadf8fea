"""Six steps of five callers on one job, in every order: each gets the answer in the table.

Every caller has its own store, as in its own process. The tests run 500 fixed orders; `MULLIGAN_SOAK=1` runs all.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from postgres_server import emptied

from conformance.bench import MINUTE, failing, worker
from conformance.invariants import all_events, all_jobs, check_history, check_row
from mulligan.errors import IllegalMove
from mulligan.failure.decision import Release, Succeed
from mulligan.lifecycle import Move
from mulligan.records.job import Lease, NewJob
from mulligan.store.messages import Beat, Claim, Outcome, Request
from mulligan.store.postgres import PostgresStore
from mulligan.store.sqlite import SqliteStore
from mulligan.store.store import Store
from mulligan.testing.virtual import VirtualClock

# Read now: the tests' own fixtures clear the environment.
IS_SOAK = bool(os.environ.get("MULLIGAN_SOAK"))
LENGTH, CHOSEN = 6, 500
STEPS = ("extend", "settle", "look", "take", "claim", "settle again", "cancel", "retry", "rescue")
# The only order in which the second worker's lease is taken before it settles.
RAREST = ("settle", "retry", "claim", "look", "take", "settle again")
Order = tuple[str, ...]


def orders() -> list[Order]:
    every = list(permutations(STEPS, LENGTH))
    return every if IS_SOAK else [RAREST, *Random(3).sample(every, CHOSEN - 1)]


@dataclass
class Table:
    """What each step must answer. The job runs: the first worker holds its first attempt."""

    state: str = "running"
    holder: str = "first"
    attempt: int = 1
    is_expired: bool = False
    first_is_stuck: bool = False
    is_to_be_cancelled: bool = False
    looked_at: tuple[str, int] | None = None
    second_holds: bool = False
    events: list[str] = field(default_factory=lambda: ["job.enqueued", "job.started"])

    def answer(self, step: str) -> str:
        return str(getattr(self, step.replace(" ", "_"))())

    def extend(self) -> str:
        if self.holder != "first":
            return "lost"
        self.is_expired = False
        return "kept"

    def settle(self) -> str:
        return self._settled("failed") if self.holder == "first" else self._refused()

    def settle_again(self) -> str:
        if not self.second_holds:
            return "nothing"
        return self._settled("succeeded") if self.holder == "second" else self._refused()

    def look(self) -> str:
        """Time passes, every lease expires, and the reclaimer looks."""
        self.is_expired = self.first_is_stuck = True
        self.looked_at = (self.holder, self.attempt) if self.holder else None
        return "overdue" if self.holder else "nothing"

    def take(self) -> str:
        """Only the lease that was looked at, and only if it is still expired."""
        if self.looked_at is None:
            return "nothing"
        if self.looked_at != (self.holder, self.attempt) or not self.is_expired:
            return "refused"
        return self._settled("cancelled" if self.is_to_be_cancelled else "queued", "job.released")

    def claim(self) -> str:
        if self.state != "queued":
            return "nothing"
        self.state, self.holder, self.attempt = "running", "second", self.attempt + 1
        self.second_holds, self.is_expired = True, False
        self.events.append("job.started")
        return f"attempt {self.attempt}"

    def cancel(self) -> str:
        if self.state == "running":
            self.is_to_be_cancelled = True
            self.events.append("job.cancel_requested")
            return "running"
        if self.state != "queued":
            return "illegal"
        self.state = "cancelled"
        self.events.append("job.cancelled")
        return "cancelled"

    def retry(self) -> str:
        if self.state not in ("failed", "cancelled"):
            return "illegal"
        self.state = "queued"
        self.events += ["job.retry_requested", "job.queued"]
        return "queued"

    def rescue(self) -> str:
        """A manual retry that first takes the attempt away if it is stuck."""
        if self.holder == "first" and self.first_is_stuck:
            self._settled("failed")
        return self.retry()

    def _settled(self, state: str, event: str | None = None) -> str:
        self.state, self.holder, self.is_to_be_cancelled = state, "", False
        self.events.append(f"job.{state}" if state == "cancelled" or event is None else event)
        return "accepted"

    def _refused(self) -> str:
        self.events.append("job.refused")
        return "refused"


class Callers:
    """The same steps for real, each made by its own store."""

    def __init__(self, open_store: Callable[[VirtualClock], Store]) -> None:
        self.clock = VirtualClock()
        self.stores = {name: open_store(self.clock) for name in ("first", "second", "reclaimer", "admin")}
        self.numbers = 0

    def close(self) -> None:
        for store in self.stores.values():
            store.close()

    def begin(self, number: int) -> None:
        # A kind of its own: no claim takes the job of another order.
        self.kind = self.job = f"job-{number}"
        self.stores["admin"].enqueue([NewJob(id=self.job, kind=self.kind, arguments="{}")])
        self.looked_at: Lease | None = None
        self.second: Lease | None = None
        (self.first,) = self._claim("first")

    def _claim(self, name: str) -> list[Lease]:
        self.numbers += 1
        claim = Claim(incarnation=name, number=self.numbers, kinds=[self.kind], limit=5, lease=MINUTE)
        return self.stores[name].claim(claim).leases

    def answer(self, step: str) -> str:
        return str(getattr(self, step.replace(" ", "_"))())

    def extend(self) -> str:
        beat = Beat(worker=worker("first"), lease=MINUTE, extend=[self.first.fence])
        return "lost" if self.stores["first"].beat(beat).lost else "kept"

    def settle(self) -> str:
        return self._settle("first", Outcome(self.first, failing()))

    def settle_again(self) -> str:
        return "nothing" if self.second is None else self._settle("second", Outcome(self.second, Succeed("1")))

    def look(self) -> str:
        self.clock.advance(MINUTE + timedelta(seconds=1))
        overdue = self.stores["reclaimer"].overdue(besides="reclaimer", limit=100_000)
        self.looked_at = next((lease for lease in overdue if lease.fence.id == self.job), None)
        return "overdue" if self.looked_at else "nothing"

    def take(self) -> str:
        if self.looked_at is None:
            return "nothing"
        return self._settle("reclaimer", Outcome(self.looked_at, Release({}), reclaimed_by="reclaimer"))

    def claim(self) -> str:
        leases = self._claim("second")
        self.second = leases[0] if leases else self.second
        return f"attempt {leases[0].fence.attempt}" if leases else "nothing"

    def cancel(self) -> str:
        return self._move(Move.MANUAL_CANCEL)

    def retry(self) -> str:
        return self._move(Move.MANUAL_RETRY)

    def rescue(self) -> str:
        return self._move(Move.MANUAL_RETRY, Outcome(self.first, failing(), reclaimed_by="ann", stuck_after=MINUTE))

    def _move(self, move: Move, first: Outcome | None = None) -> str:
        request = Request(id=f"{self.job} {move} {bool(first)}", move=move, job=self.job, first=first)
        try:
            return self.stores["admin"].move(request).state
        except IllegalMove:
            return "illegal"

    def _settle(self, name: str, outcome: Outcome) -> str:
        (answer,) = self.stores[name].settle([outcome])
        return answer

    def end(self) -> None:
        """What still runs or stands in the queue would slow down all who look after it."""
        for lease in (self.first, self.second):
            if lease is not None:
                self.stores["first"].settle([Outcome(lease, Release({}))])
        with contextlib.suppress(IllegalMove):
            self.stores["admin"].move(Request(id=f"{self.job} end", move=Move.MANUAL_CANCEL, job=self.job))


@pytest.fixture(params=["sqlite", "postgres"])
def callers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callers]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
        opened = Callers(lambda clock: SqliteStore(url, now=clock.now, threaded=False))
    else:
        url = emptied(request.getfixturevalue("database")) + "?notify=off"
        opened = Callers(lambda clock: PostgresStore(url, now=clock.now))
    yield opened
    opened.close()


def tried(callers: Callers, order: Order) -> tuple[Any, Any]:
    """What the table says and what happened, step by step, and at last the state, the attempt and the log."""
    table = Table()
    said = [(step, table.answer(step)) for step in order]
    happened = [(step, callers.answer(step)) for step in order]
    job = callers.stores["admin"].job(callers.job)
    log = callers.stores["admin"].events(job=callers.job)
    check_row(job)
    check_history(job, log)
    return (
        (said, table.state, table.attempt, table.events),
        (happened, job.state.value, job.attempt, [event.type for event in log]),
    )


def test_in_whatever_order_they_come_each_gets_the_answer_of_the_table(callers: Callers) -> None:
    differences = []
    for number, order in enumerate(orders()):
        callers.begin(number)
        said, happened = tried(callers, order)
        if said != happened:
            differences.append((said, happened))
        callers.end()
    assert not differences, f"{len(differences)} orders, the first: {differences[0]}"
    jobs, events = all_jobs(callers.stores["admin"]), all_events(callers.stores["admin"])
    assert len(jobs) == len(orders())
    assert {event.job for event in events} == {job.id for job in jobs}


def test_the_orders_tried_meet_every_answer_there_is() -> None:
    """Else the table would be longer than what is tried."""
    met = set()
    for order in orders():
        table = Table()
        met |= {(step, table.answer(step)) for step in order}
    assert met == {
        *(("extend", answer) for answer in ("kept", "lost")),
        *(("settle", answer) for answer in ("accepted", "refused")),
        *(("settle again", answer) for answer in ("nothing", "accepted", "refused")),
        *(("look", answer) for answer in ("nothing", "overdue")),
        *(("take", answer) for answer in ("nothing", "accepted", "refused")),
        *(("claim", answer) for answer in ("nothing", "attempt 2")),
        *(("cancel", answer) for answer in ("running", "illegal", "cancelled")),
        *(("retry", answer) for answer in ("illegal", "queued")),
        *(("rescue", answer) for answer in ("illegal", "queued")),
    }
