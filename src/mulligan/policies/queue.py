"""Queues: the order of their jobs and their concurrency."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from mulligan.failure.checks import bad_value, check_integer, require, set_fields
from mulligan.values.check import NAME

MOST_AT_ONCE = 1_000_000

QueueChanges = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Queue:
    """A plain queue is ordered by submission. In a fair queue the owners take turns by weight."""

    name: str
    fair: bool = False
    concurrency: int | None = None

    def __post_init__(self) -> None:
        set_fields(
            self,
            name=check_queue_name("the name of a queue", self.name),
            fair=_truth(f"fair of queue {self.name!r:.80}", self.fair),
            concurrency=check_concurrency(f"concurrency of queue {self.name!r:.80}", self.concurrency),
        )


KEYS = tuple(field.name for field in fields(Queue) if field.name != "name")


def check_name(what: str, name: Any) -> str:
    """Raises BadPolicy."""
    return str(require(what, name, NAME))


def check_queue_name(what: str, name: Any) -> str:
    """Raises BadPolicy."""
    if "*" in check_name(what, name):
        raise bad_value(what, name, "the name of one queue, without '*'; patterns are not possible")
    return str(name)


def check_queue(key: str, value: Any) -> None:
    """Raises BadPolicy."""
    given: dict[str, Any] = {key: value}
    Queue("sound", **given)


def check_concurrency(what: str, number: Any) -> int | None:
    return None if number is None else check_integer(what, number, least=1, most=MOST_AT_ONCE)


def _truth(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise bad_value(what, value, "true (owners take turns) or false (by submission)")
    return value
