"""The services of the file, which override those of the code."""

from collections.abc import Mapping
from typing import Any

from mulligan.service.config import LARGEST_WINDOW, Service, ServiceBook

KEYS = ("mode", "window", "min_calls", "open_at", "cooldown", "probes", "budget", "rate", "fail_code", "most")

ServiceChanges = Mapping[str, Mapping[str, Any]]


def override(book: ServiceBook, changes: ServiceChanges) -> ServiceBook:
    """The book with the file's changes. Values that the file leaves out are those the name had without it."""
    for name in sorted(changes, key=_generality):
        book = book.with_services([book.of(name).with_changes(name=name, **changes[name])])
    return book


def _generality(name: str) -> tuple[bool, int]:
    """Patterns first, the shortest before all: their values are the defaults for the names they match."""
    return not name.endswith("*"), len(name)


def check_key(key: str, value: Any) -> None:
    """Raises BadPolicy."""
    room: dict[str, Any] = {"window": LARGEST_WINDOW} if key == "min_calls" else {}
    Service("sound", **{**room, key: value})


def check_together(changes: Mapping[str, Any]) -> None:
    """Raise BadPolicy for keys that are valid only one by one."""
    if {"window", "min_calls"} <= set(changes):
        Service("sound", window=changes["window"], min_calls=changes["min_calls"])
