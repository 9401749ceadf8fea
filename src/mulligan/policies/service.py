"""What the file says of services, over what the code says of them."""

from collections.abc import Mapping
from typing import Any

from mulligan.service.config import LARGEST_WINDOW, Service, ServiceBook

KEYS = ("mode", "window", "min_calls", "open_at", "cooldown", "probes", "budget", "rate", "fail_code", "most")

SaidServices = Mapping[str, Mapping[str, Any]]


def over(book: ServiceBook, said: SaidServices) -> ServiceBook:
    """The book with what the file says on top. What it leaves out is that of the service the name had without it."""
    for name in sorted(said, key=_generality):
        book = book.with_services([book.of(name).with_changes(name=name, **said[name])])
    return book


def _generality(name: str) -> tuple[bool, int]:
    """Patterns first, the shortest before all: what they say is the ground for those they match."""
    return not name.endswith("*"), len(name)


def check_key(key: str, value: Any) -> None:
    """Raises BadPolicy."""
    room: dict[str, Any] = {"window": LARGEST_WINDOW} if key == "min_calls" else {}
    Service("sound", **{**room, key: value})


def check_together(said: Mapping[str, Any]) -> None:
    """Raises BadPolicy for keys that are sound one by one only."""
    if {"window", "min_calls"} <= set(said):
        Service("sound", window=said["window"], min_calls=said["min_calls"])
