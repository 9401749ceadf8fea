"""For your tests: a sandbox with virtual time, and task functions that fail in a known way."""

from mulligan.testing.bodies import crashing, flaky, hanging
from mulligan.testing.sandbox import Sandbox, sandbox

__all__ = ["Sandbox", "crashing", "flaky", "hanging", "sandbox"]
