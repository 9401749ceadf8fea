"""A program's progress, which a function of the user reads from its output."""

import logging
from collections.abc import Callable
from typing import TypeAlias

from mulligan.errors import Snooze, TaskError
from mulligan.failure.redact import sanitize

logger = logging.getLogger("mulligan.program")

Progress: TypeAlias = Callable[[str], float | tuple[float, str] | None]


class Reporter:
    """Calls the function for every line and reports the progress that it returns.

    An error in it must not cost an hour's work: it is logged, and the function is not called again. An error that a
    task raises on purpose (`FinalError`, …) ends the program and the attempt.
    """

    def __init__(self, progress: Progress, report: Callable[[float, str], None]) -> None:
        self._progress: Progress | None = progress
        self._report = report

    def __call__(self, line: str) -> None:
        if self._progress is None:
            return
        try:
            found = self._progress(line)
            if found is not None:
                ratio, text = found if isinstance(found, tuple) else (found, "")
                self._report(float(ratio), str(text))
        except (TaskError, Snooze):
            raise
        except Exception:
            self._progress = None
            logger.warning(
                "progress= raised at line %r; the program continues, but its progress is no longer reported",
                sanitize(line, 200),
                exc_info=True,
            )
