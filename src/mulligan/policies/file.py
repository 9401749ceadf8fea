"""The policies file of an app: the version in force, and the problem of a newer one that cannot be."""

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
    """Looked at every few seconds: by a worker as one of its duties, elsewhere when somebody asks.

    A file that is broken, or gone, is reported once and changes nothing.
    """

    name = "policies"
    interval = 2.0

    def __init__(self, path: Path | None, clock: Callable[[], Clock] = SystemClock) -> None:
        self.path = path
        self.problem: BadPolicies | None = None
        self._clock = clock
        self._current = NOTHING
        self._content: bytes | None = None
        self._looked_at: float | None = None
        self._looking = threading.Lock()

    @property
    def current(self) -> Policies:
        """What is in force; without a file, or before there was a sound one, nothing."""
        if self.path is not None and self._is_stale:
            self.look()
        return self._current

    @property
    def _is_stale(self) -> bool:
        # Later than the duty's own look: a worker's loop does not wait for a disk.
        return self._looked_at is None or not 0 <= self._clock().monotonic() - self._looked_at < 2 * self.interval

    def require(self) -> None:
        """Raises BadPolicies when the file cannot be in force as it is: nothing is to start so."""
        self.look()
        if self.problem is not None:
            raise self.problem

    def step(self) -> None:
        self.look()

    def look(self) -> None:
        if self.path is not None and self._looking.acquire(blocking=self._looked_at is None):
            try:
                self._look(self.path)
                # Not before: whoever else asks for the first time waits for the answer.
                self._looked_at = self._clock().monotonic()
            finally:
                self._looking.release()

    def _look(self, path: Path) -> None:
        try:
            content = _content(path)
            if content != self._content or self.problem is not None:
                self._take(read(content, str(path)), content)
        except BadPolicies as problem:
            self._missed(problem)

    def _take(self, policies: Policies, content: bytes) -> None:
        if policies.version != self._current.version:
            logger.info("policies %s of %s are in force", policies.version, self.path)
        self._current, self._content, self.problem = policies, content, None

    def _missed(self, problem: BadPolicies) -> None:
        if self.problem is None or problem.mistakes != self.problem.mistakes:
            before = self._current.version
            instead = f"version {before}" if before else "what the code says"
            logger.error("%s; %s stays in force", problem, instead)
        self.problem = problem

    # A child judges by what is in force in its worker, and does not look for itself.

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
