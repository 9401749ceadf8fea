"""What access needs to know of a route. Routes use consoles, so this package does not import them."""

from enum import Enum, auto
from typing import Protocol

from mulligan.records.key import Scope


class WithoutKey(Enum):
    """Which requests a route answers that have no key."""

    ANYONE = auto()
    SCRAPERS = auto()
    """Those from the networks in `MULLIGAN_METRICS_NETWORKS`."""


class Terms(Protocol):
    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def scope(self) -> Scope | None: ...

    @property
    def is_admin(self) -> bool: ...

    @property
    def is_change(self) -> bool: ...

    @property
    def status(self) -> int: ...


class KeylessTerms(Terms, Protocol):
    """Of a route that may be open to requests without a key."""

    @property
    def without_key(self) -> WithoutKey | None: ...
