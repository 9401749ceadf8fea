"""Programs run from inside a task: watched while they run, and nothing of them left behind."""

from mulligan.program.program import Argument, Output, ProgramOptions, run
from mulligan.program.progress import Progress, Reporter

__all__ = ["Argument", "Output", "ProgramOptions", "Progress", "Reporter", "run"]
