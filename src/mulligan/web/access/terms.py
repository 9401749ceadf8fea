"""What access needs to know of a route. Routes use consoles, so this package does not import them."""

from typing import Protocol

from mulligan.records.key import Scope


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
