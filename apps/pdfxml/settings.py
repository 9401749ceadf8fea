"""The settings of the converter: the variables of the environment, without a prefix."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from apps.pages.settings import SettingRefused
from mulligan import Added, Exponential, MulliganError, RetryPolicy, Service

MEGABYTE = 2**20
LARGEST_UPLOAD = 50 * MEGABYTE
GATEWAY = "gateway"
MODES = ("hold", "fail_fast")
# Of calls, before the breaker may open.
MOST_MIN_CALLS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can differ between two installations."""

    database_url: str = "sqlite:///pdfxml.db"
    gateway_url: str = "http://127.0.0.1:8071"
    gateway_timeout: timedelta = timedelta(seconds=30)
    uploads: Path = Path("uploads")
    results: Path = Path("results")
    largest_upload: int = LARGEST_UPLOAD
    largest_result: int = 500 * MEGABYTE
    live_jobs: int = 20
    upload_rate: str = "600/h"
    """Of one address: whoever sends no cookie has a new session each time."""
    retention: timedelta = timedelta(days=7)
    max_attempts: int = 3
    base_delay: timedelta | None = None
    jitter: timedelta | None = None
    circuit_window: int | str = 20
    circuit_fail_threshold: float = 0.5
    circuit_cooldown: timedelta = timedelta(seconds=30)
    circuit_mode: str = "hold"
    lease: timedelta | None = None
    concurrency: int | None = None

    @property
    def upload_limit(self) -> str:
        """The largest upload, for people: `50 MB`."""
        for unit, size in (("MB", MEGABYTE), ("KB", 2**10)):
            if self.largest_upload % size == 0:
                return f"{self.largest_upload // size:,} {unit}"
        return f"{self.largest_upload:,} bytes"

    @property
    def policy(self) -> RetryPolicy:
        """Waits of 5 s, 15 s and 45 s ± 20 %. With a base delay or a jitter given: base · 2ⁿ + random(0…jitter)."""
        backoff = Exponential("5s", factor=3, jitter=0.2)
        if self.base_delay is not None or self.jitter is not None:
            base = timedelta(seconds=5) if self.base_delay is None else self.base_delay
            added = timedelta(seconds=5) if self.jitter is None else self.jitter
            backoff = Exponential(base, factor=2, jitter=Added(added))
        return RetryPolicy(self.max_attempts, backoff, limits={"IO_ERROR": 1})

    def service(self, probe: Callable[[], bool]) -> Service:
        """The breaker around the gateway. One conversion alone can use up its attempts; two that fail open it."""
        window = self.circuit_window
        min_calls = min(MOST_MIN_CALLS, self.max_attempts + 1)
        return Service(
            GATEWAY,
            mode=self.circuit_mode,
            window=window,
            min_calls=min(min_calls, window) if isinstance(window, int) else min_calls,
            open_at=self.circuit_fail_threshold,
            cooldown=self.circuit_cooldown,
            fail_code="GW_5XX",
            probe=probe,
        )


Reader = tuple[str, Callable[[str], Any], str]


def _whole(low: int, high: int) -> tuple[Callable[[str], Any], str]:
    return lambda text: _within(low, high, int(text)), f"an integer from {low:,} to {high:,}"


def _milliseconds(low: int, high: int) -> tuple[Callable[[str], Any], str]:
    def read(text: str) -> timedelta:
        return timedelta(milliseconds=_within(low, high, float(text)))

    return read, f"a number of milliseconds from {low:,} to {high:,}"


def _days() -> tuple[Callable[[str], Any], str]:
    return lambda text: timedelta(days=_within(1 / 1440, 3650, float(text))), "a number of days, from a minute to 3,650"


def _seconds() -> tuple[Callable[[str], Any], str]:
    return lambda text: timedelta(seconds=_within(1, 86_400, float(text))), "a number of seconds from 1 to 86,400"


def _window(text: str) -> int | str:
    window = int(text) if text.isdecimal() else text
    Service(GATEWAY, window=window)
    return window


def _threshold(text: str) -> float:
    threshold = float(text)
    Service(GATEWAY, open_at=threshold)
    return threshold


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError
    return text.rstrip("/")


def _rate(text: str) -> str:
    Service(GATEWAY, rate=text)
    return text


def _mode(text: str) -> str:
    if text not in MODES:
        raise ValueError
    return text


def _within(low: float, high: float, value: Any) -> Any:
    if not low <= value <= high:
        raise ValueError
    return value


MONTH_MS = 30 * 86_400_000
READERS: Mapping[str, Reader] = {
    "DATABASE_URL": ("database_url", str, "a database URL"),
    "GATEWAY_URL": ("gateway_url", _url, "a URL that begins with http:// or https://"),
    "GATEWAY_TIMEOUT_MS": ("gateway_timeout", *_milliseconds(1, 3_600_000)),
    "UPLOADS_DIR": ("uploads", Path, "a folder"),
    "RESULTS_DIR": ("results", Path, "a folder"),
    "UPLOAD_MAX_BYTES": ("largest_upload", *_whole(1, LARGEST_UPLOAD)),
    "RESULT_MAX_BYTES": ("largest_result", *_whole(1, 2**40)),
    "SESSION_LIVE_JOBS": ("live_jobs", *_whole(1, 1_000_000)),
    "ADDRESS_UPLOAD_RATE": ("upload_rate", _rate, "a rate such as 600/h"),
    "RETENTION_DAYS": ("retention", *_days()),
    "RETRY_MAX_ATTEMPTS": ("max_attempts", *_whole(1, 1_000)),
    "RETRY_BASE_DELAY_MS": ("base_delay", *_milliseconds(0, MONTH_MS)),
    "RETRY_JITTER_MAX_MS": ("jitter", *_milliseconds(0, MONTH_MS)),
    "CIRCUIT_WINDOW": ("circuit_window", _window, "a number of calls from 1 to 500, or a duration such as '2m'"),
    "CIRCUIT_FAIL_THRESHOLD": ("circuit_fail_threshold", _threshold, "a fraction above 0, at most 1"),
    "CIRCUIT_COOLDOWN_MS": ("circuit_cooldown", *_milliseconds(100, 86_400_000)),
    "CIRCUIT_MODE": ("circuit_mode", _mode, "hold or fail_fast"),
    "WORKER_LEASE_TTL_SEC": ("lease", *_seconds()),
    "WORKER_CONCURRENCY": ("concurrency", *_whole(1, 10_000)),
}


def read_settings(environment: Mapping[str, str], *, url: str | None = None) -> Settings:
    """The settings of an environment. An empty variable counts as missing; raises SettingRefused."""
    given = {name: environment[name].strip() for name in READERS if environment.get(name, "").strip()}
    values = dict(_read(name, value) for name, value in given.items())
    return Settings(**values | ({"database_url": url} if url else {}))


def _read(name: str, value: str) -> tuple[str, Any]:
    field, read, allowed = READERS[name]
    try:
        return field, read(value)
    except (ValueError, MulliganError):
        raise SettingRefused(name, value, allowed) from None
