"""Queues: how their jobs take turns."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from mulligan.failure.checks import fill, refused, whole

LONGEST_NAME = 200
MOST_AT_ONCE = 1_000_000

SaidQueues = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Queue:
    """A plain queue goes strictly by submission. In a fair one the owners take turns, each by his weight."""

    name: str
    fair: bool = False
    concurrency: int | None = None

    def __post_init__(self) -> None:
        fill(
            self,
            name=queue_name("the name of a queue", self.name),
            fair=_truth(f"fair of queue {self.name!r:.80}", self.fair),
            concurrency=at_once(f"concurrency of queue {self.name!r:.80}", self.concurrency),
        )


KEYS = tuple(field.name for field in fields(Queue) if field.name != "name")


def checked_name(what: str, name: Any) -> str:
    """Raises BadPolicy."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise refused(what, name, f"one line of text of at most {LONGEST_NAME} characters")
    return name


def queue_name(what: str, name: Any) -> str:
    """Raises BadPolicy."""
    if "*" in checked_name(what, name):
        raise refused(what, name, "the name of one queue, without '*': there are no patterns of queues")
    return str(name)


def checked_queue(key: str, value: Any) -> None:
    """Raises BadPolicy."""
    given: dict[str, Any] = {key: value}
    Queue("sound", **given)


def at_once(what: str, number: Any) -> int | None:
    return None if number is None else whole(what, number, least=1, most=MOST_AT_ONCE)


def _truth(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise refused(what, value, "true (owners take turns) or false (by submission)")
    return value
