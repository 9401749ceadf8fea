"""The configuration of the daemon: a file that is read again when it changes."""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import yaml
from msgspec import Meta, Struct, ValidationError, convert

from apps.runs.claim import Category
from mulligan import Exponential, MulliganError, RetryPolicy

logger = logging.getLogger("apps.runs")

LARGEST = 2**16
# Longer waits than this are refused by the engine.
LONGEST_HINT = timedelta(days=30)
# A wait that the leaderboard asked for uses up nothing. This is the most that the engine takes.
MOST_WAITS = 1_000_000


class BadConfiguration(Exception):
    """The file cannot be used; the message says why."""


class RetryConfiguration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Durations are strings such as `60s`, or numbers of seconds."""

    max_attempts: Annotated[int, Meta(ge=1)] = 8
    initial_backoff: str | float = "60s"
    backoff_multiplier: float = 2.0
    max_backoff: str | float = "3600s"

    def policy(self) -> RetryPolicy:
        """Raises MulliganError for values that cannot work."""
        backoff = Exponential(self.initial_backoff, self.backoff_multiplier, cap=self.max_backoff, jitter=None)
        return RetryPolicy(self.max_attempts, backoff, longest_hint=LONGEST_HINT, max_snoozes=MOST_WAITS)


class Configuration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    leaderboard: Annotated[str, Meta(pattern=r"\Ahttps?://[^/?#\s]+/?\Z")] = "http://127.0.0.1:8090"
    categories: tuple[Category, ...] = ()
    """The allowed ones. Runs of others are not polled, and not claimed if they are stored."""
    poll_interval: Annotated[float, Meta(ge=5, le=86_400)] = 30.0
    """Seconds from one poll of the leaderboard to the next, rounded to five."""
    timeout: Annotated[float, Meta(gt=0, le=240)] = 10.0
    """Seconds that one answer of the leaderboard may take, from the request to its last byte. A verification has
    five minutes."""
    retry: RetryConfiguration = RetryConfiguration()

    def allows(self, category: str) -> bool:
        return category in self.categories


class ConfigurationFile:
    """`current` is the version in force. A newer version that is invalid is logged once, and changes nothing."""

    def __init__(self, path: Path, take: Callable[[Configuration], None] = lambda _: None) -> None:
        self.path = path
        self.problem: str | None = None
        self._take = take
        self._content = b""
        self._lock = threading.Lock()
        self._current = self._read()

    @property
    def current(self) -> Configuration:
        # One thread takes a change up. Two at once would replace the same file, and one of them would find it gone.
        with self._lock:
            try:
                self._current, self.problem = self._read(), None
            except BadConfiguration as problem:
                self._report(str(problem))
            return self._current

    def _read(self) -> Configuration:
        content = _contents(self.path)
        if content == self._content:
            return self._current
        configuration = read_configuration(content)
        self._take(configuration)
        self._content = content
        return configuration

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            logger.error("%s: %s; the previous configuration stays in force", self.path.name, problem)
        self.problem = problem


def _contents(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST)
    except OSError as error:
        raise BadConfiguration(f"it cannot be read: {error.strerror}") from None


def read_configuration(content: bytes) -> Configuration:
    """Raises BadConfiguration."""
    try:
        configuration = convert(yaml.safe_load(content) or {}, Configuration)
        configuration.retry.policy()
    except (ValidationError, MulliganError, yaml.YAMLError, UnicodeDecodeError) as problem:
        raise BadConfiguration(" ".join(str(problem).split())) from None
    return configuration


def to_policies(configuration: Configuration) -> dict[str, Any]:
    """The retry keys as the engine's policies file has them, which workers take up while they run."""
    retry = configuration.retry
    backoff = {
        "type": "exponential",
        "base": retry.initial_backoff,
        "factor": retry.backoff_multiplier,
        "cap": retry.max_backoff,
        "jitter": "none",
    }
    limits = {"max_attempts": retry.max_attempts, "max_snoozes": MOST_WAITS}
    return {"kinds": {"verify": {**limits, "backoff": backoff}}}
