"""Failures of programs, by how they end. A shell reports 128 + n for signal n, Python -n."""

import errno

from mulligan.errors import ProgramTimedOut
from mulligan.failure.rule import Rule
from mulligan.failure.verdict import Failure

_CANNOT_START = {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR}


def _was_not_started(failure: Failure) -> bool:
    """a program that could not be started, not a file the task opened itself"""
    return "in _execute_child" in failure.detail


RULES: tuple[Rule, ...] = (
    Rule("TIMEOUT", "retryable", when=("subprocess.TimeoutExpired", ProgramTimedOut), name="process.timeout"),
    # A SIGKILL nearly always comes from the kernel's out-of-memory killer.
    Rule("OUT_OF_MEMORY", "retryable", exit=(-9, 137), name="process.killed"),
    Rule("PROGRAM_CRASHED", "retryable", exit=(-11, 139), name="process.segfault"),
    # Retried: a container that started without its volume may get it later.
    Rule("PROGRAM_MISSING", "retryable", exit=(126, 127), name="process.missing"),
    Rule("PROGRAM_MISSING", "retryable", errno=_CANNOT_START, when=_was_not_started, name="process.not_started"),
    Rule("PROGRAM_FAILED", "retryable", exit=(range(-64, 0), range(129, 193)), name="process.signal"),
    Rule("PROGRAM_FAILED", "retryable", exit=range(1, 256), name="process.exit"),
)
