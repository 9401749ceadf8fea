"""The tests of a store against the model: steps on which they once disagreed, then random ones."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from conformance.bench import MINUTE, SECOND
from conformance.examples import MachineTests
from conformance.machine import OpenStore, StoreMachine
from conformance.machine_draws import FAIR
from mulligan.records.job import NewJob
from mulligan.records.limit import LimitBook
from mulligan.store.messages import Claim
from mulligan.store.store import Store

USUAL_EXAMPLES = 60


def machine(open_store: OpenStore, *, examples: int | None = None) -> Any:
    """Tests for pytest. `open_store` gets the clock and an empty folder, and returns an empty store."""

    class StoreIsTheModel(StoreMachine):
        def open(self, now: Callable[[], datetime], folder: Path) -> Store:
            return open_store(now, folder)

    class Agreement(KnownDisagreements):
        pass

    Agreement.machine, Agreement.examples = StoreIsTheModel, examples or USUAL_EXAMPLES
    return Agreement


class KnownDisagreements(MachineTests):
    """Each found by the machine once; the fewest steps that show it."""

    machine: ClassVar[type[StoreMachine]]

    @pytest.fixture
    def life(self) -> Iterator[StoreMachine]:
        life = self.machine()
        yield life
        life.teardown()

    def test_jobs_of_an_idle_fair_queue_and_a_plain_one_are_claimed_in_the_same_order(self, life: StoreMachine) -> None:
        _make_idle_between_two_beats(life)
        life.store_new(_new(life, queue="default"), _new(life, queue="bulk"))
        life.make_claim(_claim(life))

    def test_a_job_of_an_idle_fair_queue_or_of_a_plain_one_gets_the_only_slot(self, life: StoreMachine) -> None:
        _make_idle_between_two_beats(life)
        life.limit_by(LimitBook(kinds={"a": 2}))
        life.store_new(_new(life, queue="default"), _new(life, queue="bulk"))
        life.make_claim(_claim(life))
        life.they_agree()


def _make_idle_between_two_beats(life: StoreMachine) -> None:
    """A store looks for idle queues every five seconds: at the first beat the queue is not idle, the second comes too
    soon after it. So the next job of the queue is ranked by its old turns."""
    life.store_new(_new(life, queue="bulk"))
    life.clock.advance(2 * MINUTE)
    life.send_beat("w1", [])
    life.make_claim(_claim(life))
    life.clock.advance(SECOND)
    life.send_beat("w1", [])


def _new(life: StoreMachine, *, queue: str) -> NewJob:
    weight = 1.0 if queue in FAIR else None
    return NewJob(id=life.ids(), kind="a", arguments="{}", owner="acme", queue=queue, weight=weight)


def _claim(life: StoreMachine) -> Claim:
    return Claim(incarnation="w1", number=next(life.numbers), kinds=("a",), limit=4, lease=MINUTE, fair=FAIR)
