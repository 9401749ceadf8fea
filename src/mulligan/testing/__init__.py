"""For your tests, and for ours: a sandbox in which time moves, and the suite every store passes."""

from typing import TYPE_CHECKING, Any

from mulligan.testing.bodies import crashing, flaky, hanging
from mulligan.testing.sandbox import Sandbox, sandbox

if TYPE_CHECKING:
    from mulligan.testing.suite import StoreSuite

__all__ = ["Sandbox", "StoreSuite", "crashing", "flaky", "hanging", "sandbox"]


def __getattr__(name: str) -> Any:
    # The suite needs pytest, which a user of the sandbox may not have.
    if name == "StoreSuite":
        from mulligan.testing.suite import StoreSuite

        return StoreSuite
    raise AttributeError(name)
