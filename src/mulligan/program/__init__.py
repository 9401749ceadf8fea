"""Programs that a task runs: watched while they run, and killed with everything they started."""

from mulligan.program.program import Argument, Output, ProgramOptions, run
from mulligan.program.progress import Progress, Reporter

__all__ = ["Argument", "Output", "ProgramOptions", "Progress", "Reporter", "run"]
