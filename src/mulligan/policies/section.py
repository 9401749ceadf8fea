"""One section of the file. Values that it leaves out come from the next section, and at last from the code."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from mulligan.failure.backoff import DEFAULT_BACKOFF, Backoff, Exponential, Fixed, Linear, Steps
from mulligan.failure.rule import Rule
from mulligan.failure.windows import Window

BACKOFFS: dict[str, Any] = {"exponential": Exponential, "fixed": Fixed, "linear": Linear, "steps": Steps}


@dataclass(frozen=True, slots=True)
class BackoffChange:
    """A backoff's type and the parts that the file gives."""

    type: str
    parts: Mapping[str, Any]

    def override(self, before: Backoff) -> Backoff:
        """The new backoff. If the type is the same, other parts stay; otherwise only the first delay stays."""
        made = BACKOFFS[self.type]
        kept: dict[str, Any] = _parts(before) if type(before) is made else {"delay": _first_delay(before)}
        given = {name: part for name, part in {**kept, **self.parts}.items() if name in parts_of(self.type)}
        backoff: Backoff = made(**given)
        return backoff


def parts_of(type_: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(BACKOFFS[type_]))


def _parts(backoff: Any) -> dict[str, Any]:
    return {field.name: getattr(backoff, field.name) for field in fields(backoff)}


def _first_delay(backoff: Backoff) -> timedelta:
    match backoff:
        case Exponential(delay=delay) | Fixed(delay=delay) | Linear(delay=delay):
            return delay
        case Steps(delays=delays):
            return delays[0]
    return DEFAULT_BACKOFF.delay


class Section(Struct, frozen=True, kw_only=True):
    """`path` is its place in the file, such as `kinds.convert.owners.acme`."""

    path: str
    max_attempts: int | UnsetType = UNSET
    backoff: BackoffChange | UnsetType = UNSET
    limits: Mapping[str, int] | UnsetType = UNSET
    deadline: timedelta | UnsetType | None = UNSET
    windows: tuple[Window, ...] | UnsetType = UNSET
    max_crashes: int | UnsetType = UNSET
    max_snoozes: int | UnsetType = UNSET
    longest_hint: timedelta | UnsetType = UNSET
    timeout: timedelta | UnsetType = UNSET
    rules: tuple[Rule, ...] | UnsetType = UNSET

    def values(self) -> dict[str, Any]:
        """The given values by key."""
        found = {name: getattr(self, name) for name in KEYS}
        return {name: value for name, value in found.items() if value is not UNSET}


KEYS = tuple(name for name in Section.__struct_fields__ if name != "path")
