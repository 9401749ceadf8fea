"""What programs report by the way they end. A shell says 128 + n for signal n, Python says -n."""

import errno

from mulligan.errors import ProgramTimedOut
from mulligan.failure.rule import Rule
from mulligan.failure.verdict import Failure

_CANNOT_START = {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR}


def _was_not_started(failure: Failure) -> bool:
    """a program that could not be started, not a file the task opened itself"""
    return failure.errno in _CANNOT_START and "in _execute_child" in failure.detail


RULES: tuple[Rule, ...] = (
    Rule("TIMEOUT", "retryable", when=("subprocess.TimeoutExpired", ProgramTimedOut), name="process.timeout"),
    # The kernel's killer of last resort sends 9, and it is nearly always the one who did.
    Rule("OUT_OF_MEMORY", "retryable", exit=(-9, 137), name="process.killed"),
    Rule("PROGRAM_CRASHED", "retryable", exit=(-11, 139), name="process.segfault"),
    # Retried: a container that came up without its volume gets it back.
    Rule("PROGRAM_MISSING", "retryable", exit=(126, 127), name="process.missing"),
    Rule("PROGRAM_MISSING", "retryable", when=_was_not_started, name="process.not_started"),
    Rule("PROGRAM_FAILED", "retryable", exit=(range(-64, 0), range(129, 193)), name="process.signal"),
    Rule("PROGRAM_FAILED", "retryable", exit=range(1, 256), name="process.exit"),
)
