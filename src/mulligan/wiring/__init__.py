"""What an App is made of: settings, store, judge, console parts, duties and workers, put together in one place."""

from mulligan.wiring.parts import Parts
from mulligan.wiring.wiring import Wiring

__all__ = ["Parts", "Wiring"]
