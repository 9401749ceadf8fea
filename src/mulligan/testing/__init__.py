"""For your tests: a sandbox in which time moves and nothing sleeps, and task bodies that fail in a known way."""

from mulligan.testing.bodies import crashing, flaky, hanging
from mulligan.testing.sandbox import Sandbox, sandbox

__all__ = ["Sandbox", "crashing", "flaky", "hanging", "sandbox"]
