"""Everything that an App consists of: settings, store, judge, console parts, duties and workers."""

from mulligan.wiring.parts import AppParts
from mulligan.wiring.wiring import Wiring

__all__ = ["AppParts", "Wiring"]
