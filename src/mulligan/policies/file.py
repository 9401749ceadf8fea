"""The policies file of an app: the version in force, and the problem of a newer version that is invalid."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from mulligan.errors import BadPolicies
from mulligan.policies.reading import LARGEST, Policies, read
from mulligan.values.clock import Clock, SystemClock
from mulligan.values.file import Unreadable, read_contents

logger = logging.getLogger("mulligan.policies")

NOTHING = Policies()


class PolicyFile:
    """Read again every few seconds: in a worker by a duty, elsewhere on use.

    An invalid or missing file is reported once and changes nothing. A file that became empty counts from the second
    look on: most programs empty a file before they write it.
    """

    name = "policies"
    interval = 2.0

    def __init__(self, path: Path | None, clock: Callable[[], Clock] = SystemClock) -> None:
        self.path = path
        self.problem: BadPolicies | None = None
        self._clock = clock
        self._current = NOTHING
        self._content: bytes | None = None
        self._was_empty = False
        self._looked_at: float | None = None
        self._looking = threading.Lock()

    @property
    def current(self) -> Policies:
        """The policies in force; empty without a file, or before there was a valid one."""
        if self.path is not None and self._is_stale:
            self.look()
        return self._current

    @property
    def _is_stale(self) -> bool:
        # Longer than the duty's interval: a worker's event loop must not wait for a disk.
        return self._looked_at is None or not 0 <= self._clock().monotonic() - self._looked_at < 2 * self.interval

    def require(self) -> None:
        """Raise BadPolicies if the file is invalid, so that nothing starts with it."""
        self.look()
        if self.problem is not None:
            raise self.problem

    def step(self) -> None:
        self.look()

    def look(self) -> None:
        if self.path is not None and self._looking.acquire(blocking=self._looked_at is None):
            try:
                self._look(self.path)
                # Set last: another thread that asks for the first time waits for the result.
                self._looked_at = self._clock().monotonic()
            finally:
                self._looking.release()

    def _look(self, path: Path) -> None:
        try:
            content = _content(path)
            if self._is_being_written(content):
                return
            if content != self._content or self.problem is not None:
                self._take(read(content, str(path)), content)
        except BadPolicies as problem:
            self._report(problem)

    def _is_being_written(self, content: bytes) -> bool:
        was_empty, self._was_empty = self._was_empty, not content.strip()
        return self._was_empty and not was_empty and bool(self._content)

    def _take(self, policies: Policies, content: bytes) -> None:
        if policies.version != self._current.version:
            logger.info("policies %s of %s are in force", policies.version, self.path)
        self._current, self._content, self.problem = policies, content, None

    def _report(self, problem: BadPolicies) -> None:
        if self.problem is None or problem.mistakes != self.problem.mistakes:
            before = self._current.version
            instead = f"version {before}" if before else "the policies in the code"
            logger.error("%s; %s stays in force", problem, instead)
        self.problem = problem

    # A child process uses the policies of its worker and does not read the file.

    @property
    def content(self) -> bytes:
        return self._content or b""

    def follow(self, content: bytes) -> None:
        shown, self.path = str(self.path), None
        self._current, self._content = read(content, shown), content


def load(path: Path) -> Policies:
    """The policies in a file. Raises BadPolicies."""
    return read(_content(path), str(path))


def _content(path: Path) -> bytes:
    try:
        return read_contents(path, largest=LARGEST)
    except Unreadable as problem:
        raise BadPolicies(str(path), [str(problem)]) from None
    except OSError as error:
        raise BadPolicies(str(path), [f"it cannot be read: {error.strerror}"]) from None


NO_FILE = PolicyFile(None)
