import random
from datetime import timedelta
from uuid import UUID

from mulligan.testing.virtual import VirtualClock
from mulligan.values.clock import Ids


def test_ids_are_uuid7_and_in_the_order_of_their_making() -> None:
    clock = VirtualClock()
    ids = Ids(clock, random.Random(1))
    made = []
    for _ in range(3):
        made += [*ids.many(5000), *(ids() for _ in range(500)), *ids.many(0), *ids.many(1)]
        clock.advance(timedelta(milliseconds=1))
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {UUID(id_).version for id_ in made} == {7}


def test_ids_stay_in_order_when_the_clock_steps_back() -> None:
    class SteppingClock(VirtualClock):
        def step_back(self) -> None:
            self._now -= timedelta(hours=1)

    clock = SteppingClock()
    ids = Ids(clock, random.Random(1))
    before = ids()
    clock.step_back()
    assert ids() > before


def test_the_same_seed_makes_the_same_ids() -> None:
    first, second = (Ids(VirtualClock(), random.Random(7)) for _ in range(2))
    assert [first() for _ in range(10)] == [second() for _ in range(10)]
