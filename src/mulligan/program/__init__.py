"""Programs run from inside a task: watched while they run, and nothing of them left behind."""

from mulligan.program.program import Argument, Options, Output, run
from mulligan.program.progress import Progress, Reporter

__all__ = ["Argument", "Options", "Output", "Progress", "Reporter", "run"]
