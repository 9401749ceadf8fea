"""For your tests, and for ours: a sandbox in which time moves, and the suite every store passes."""

from mulligan.testing.bodies import flaky, hanging
from mulligan.testing.sandbox import Sandbox, sandbox

__all__ = ["Sandbox", "flaky", "hanging", "sandbox"]
