"""A mistyped name is answered with the one that was meant, in the same words everywhere."""

import pytest

from mulligan.errors import UnknownDuty, UnknownKind, UnknownQueue, UnknownSchedule, UnknownService
from mulligan.values.suggest import unknown

ERRORS = {
    "task": UnknownKind,
    "duty": UnknownDuty,
    "queue": UnknownQueue,
    "schedule": UnknownSchedule,
    "service": UnknownService,
}


@pytest.mark.parametrize("what", ERRORS)
def test_every_unknown_name_is_reported_in_the_same_words(what: str) -> None:
    message = str(ERRORS[what]("Nigthly", {"nightly", "bulk"}))
    assert message == f"no {what} is named 'Nigthly'; did you mean 'nightly'? known are: 'bulk', 'nightly'"
    assert str(ERRORS[what]("x", [])) == f"no {what} is named 'x'; known are: none"


def test_neither_a_long_name_nor_many_known_ones_make_a_long_message() -> None:
    message = unknown("queue", "x" * 10_000, (f"queue-{number}" for number in range(1_000)))
    assert len(message) < 500
    assert message.endswith("'queue-106', …")


def test_a_short_list_of_known_names_is_shown_whole() -> None:
    known = [f"queue-{number:02}" for number in range(20)]
    assert unknown("queue", "x", known).endswith(", ".join(map(repr, known)))
