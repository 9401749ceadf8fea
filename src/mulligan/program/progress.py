"""How far a program is, read from its lines by a function of the user's."""

import logging
from collections.abc import Callable
from typing import TypeAlias

from mulligan.errors import Snooze, TaskError
from mulligan.failure.redact import sanitize

logger = logging.getLogger("mulligan.program")

Progress: TypeAlias = Callable[[str], float | tuple[float, str] | None]


class Reporter:
    """Asks the function for every line and passes on what it says.

    A mistake in it must not cost an hour's work: it is logged, and the function asked no more. What a
    task raises on purpose (`FinalError`, …) ends the program and the attempt.
    """

    def __init__(self, progress: Progress, report: Callable[[float, str], None]) -> None:
        self._progress: Progress | None = progress
        self._report = report

    def __call__(self, line: str) -> None:
        if self._progress is None:
            return
        try:
            self._pass_on(self._progress(line))
        except (TaskError, Snooze):
            raise
        except Exception:
            self._progress = None
            logger.warning(
                "progress= raised at line %r; the program runs on, its progress is not shown any more",
                sanitize(line, 200),
                exc_info=True,
            )

    def _pass_on(self, said: float | tuple[float, str] | None) -> None:
        match said:
            case None:
                pass
            case (ratio, text):
                self._report(float(ratio), str(text))
            case ratio:
                self._report(float(ratio), "")
