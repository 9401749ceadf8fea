"""Settings: the environment overrides mulligan.toml, and that overrides the code. Nothing else reads them."""

import logging
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import cache
from ipaddress import ip_network
from math import nextafter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict
from urllib.parse import urlsplit

from mulligan.errors import BadRate, BadSetting, ConfigurationError, without_password
from mulligan.failure.backoff import Added, Exponential
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.redact import password_of
from mulligan.lifecycle import FINAL
from mulligan.notify.smtp_server import ALLOWED as SMTP_ALLOWED
from mulligan.notify.smtp_server import SmtpServer, parse_smtp_url
from mulligan.records.exposition import PREFIX_ALLOWED, is_prefix
from mulligan.records.rate import Rate, parse_rate
from mulligan.records.retention import Keep
from mulligan.records.statistics import SPANS
from mulligan.service.config import LARGEST_WINDOW, MOST_NAMES, Service
from mulligan.store.messages import TIMEOUT
from mulligan.values.address import Network, parse_network
from mulligan.values.duration import BadDuration, parse
from mulligan.values.file import Unreadable, read_contents
from mulligan.values.suggest import did_you_mean, nearest, unknown

if TYPE_CHECKING:
    from mulligan.egress import Egress

logger = logging.getLogger("mulligan.settings")

PREFIX = "MULLIGAN_"
FILE = "mulligan.toml"
# The largest settings file, in bytes.
LARGEST = 2**20
REQUEST_RATE, FAILED_REQUEST_RATE = parse_rate("200/s"), parse_rate("60/m")


class DutyBounds(TypedDict):
    """The interval in seconds, and the limit of one run."""

    interval: float
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Durations are timedeltas. In the environment and in mulligan.toml their names end with a unit: `READERS`."""

    database_url: str = "sqlite:///mulligan.db"
    store_timeout: timedelta = TIMEOUT
    app: str | None = None
    policies_file: str | None = None
    retry_max_attempts: int | None = None
    retry_base_delay: timedelta | None = None
    retry_jitter_max: timedelta | None = None
    circuit_window: int | timedelta = 20
    circuit_fail_threshold: float = 0.5
    circuit_cooldown: timedelta = timedelta(seconds=30)
    circuit_most_names: int = 1_000
    worker_concurrency: int = 10
    worker_lease_ttl: timedelta = timedelta(seconds=60)
    stuck_after: timedelta = timedelta(minutes=30)
    stuck: str = "report"
    duty_reclaim_interval: timedelta | None = None
    duty_reclaim_limit: int = 200
    duty_retry_interval: timedelta = timedelta(seconds=15)
    duty_retry_limit: int = 1_000
    duty_promote_interval: timedelta = timedelta(seconds=15)
    duty_promote_limit: int = 1_000
    duty_expire_interval: timedelta = timedelta(seconds=1)
    duty_expire_limit: int = 500
    duty_schedule_interval: timedelta = timedelta(seconds=1)
    duty_schedule_limit: int = 100
    duty_redrive_interval: timedelta = timedelta(seconds=1)
    duty_redrive_limit: int = 100
    duty_probe_interval: timedelta = timedelta(seconds=1)
    duty_probe_limit: int = 100
    duty_project_interval: timedelta = timedelta(seconds=1)
    duty_project_limit: int = 1_000
    duty_notify_interval: timedelta = timedelta(seconds=1)
    duty_notify_limit: int = 500
    duty_digest_interval: timedelta = timedelta(seconds=5)
    duty_digest_limit: int = 100
    duty_alert_interval: timedelta = timedelta(seconds=15)
    # A run is one evaluation, whatever the limit.
    duty_alert_limit: int = 1
    duty_prune_interval: timedelta = timedelta(seconds=10)
    duty_prune_limit: int = 500
    retention_succeeded: timedelta | None = timedelta(days=7)
    retention_succeeded_count: int | None = None
    retention_cancelled: timedelta | None = timedelta(days=7)
    retention_cancelled_count: int | None = None
    # Failed jobs are kept until a person deals with them.
    retention_failed: timedelta | None = None
    retention_failed_count: int | None = None
    retention_results: timedelta | None = None
    retention_audit: timedelta | None = timedelta(days=365)
    # Requests to the HTTP API: with one key, and without a valid key from one address.
    request_rate: Rate = REQUEST_RATE
    failed_request_rate: Rate = FAILED_REQUEST_RATE
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    retention_deliveries: timedelta | None = timedelta(days=30)
    # Notifications: mails are skipped without a server; links in them need the public URL.
    smtp_url: SmtpServer | None = None
    public_url: str | None = None
    webhook_ports: tuple[int, ...] = (443,)
    webhook_allowed_networks: tuple[Network, ...] = ()
    # What the names of metrics begin with, and from where they may be asked for without a key.
    metrics_prefix: str = "mulligan_"
    metrics_networks: tuple[str, ...] = ()
    # Since a failure group was last seen.
    retention_groups: timedelta | None = timedelta(days=90)
    retention_statistics_minutes: timedelta | None = timedelta(days=2)
    retention_statistics_hours: timedelta | None = timedelta(days=60)
    retention_statistics_days: timedelta | None = timedelta(days=730)
    log_level: str = "INFO"
    log_format: str = "text"

    @property
    def default_policy(self) -> RetryPolicy:
        """The policy of tasks without `retry=`."""
        policy = RetryPolicy()
        if self.retry_base_delay is not None or self.retry_jitter_max is not None:
            base = "15s" if self.retry_base_delay is None else self.retry_base_delay
            jitter = 0.2 if self.retry_jitter_max is None else Added(self.retry_jitter_max)
            policy = replace(policy, backoff=Exponential(base, jitter=jitter))
        if self.retry_max_attempts is not None:
            policy = replace(policy, max_attempts=self.retry_max_attempts)
        return policy

    @property
    def default_service(self) -> Service:
        """The configuration of services that are not configured by name or pattern."""
        return Service(
            "*",
            window=self.circuit_window,
            open_at=self.circuit_fail_threshold,
            cooldown=self.circuit_cooldown,
            most=self.circuit_most_names,
        )

    def duty_bounds(self, duty: str) -> "DutyBounds":
        """How often the duty runs and how many jobs one run moves. By default, `reclaim` runs ten times in a lease, and
        at least once a second."""
        given: timedelta | None = getattr(self, f"duty_{duty}_interval")
        interval = given or min(timedelta(seconds=1), self.worker_lease_ttl / 10)
        return {"interval": interval.total_seconds(), "limit": getattr(self, f"duty_{duty}_limit")}

    @property
    def passwords(self) -> tuple[str, ...]:
        """The passwords that can be masked wherever they occur: not short ones."""
        return (*password_of(self.database_url), *(self.smtp_url.secrets if self.smtp_url else ()))

    @property
    def egress(self) -> "Egress":
        """What webhooks may reach."""
        # Late: it imports TLS, which most programs do not need from us.
        from mulligan.egress import Egress

        return Egress(ports=self.webhook_ports, allowed=self.webhook_allowed_networks)

    @property
    def retention_spans(self) -> dict[str, timedelta | None]:
        """How long the statistics of minutes, hours and days are kept."""
        return {span: getattr(self, f"retention_statistics_{span}s") for span in SPANS}

    @property
    def retention(self) -> list[Keep]:
        """How long jobs that are over are kept, by state."""
        return [
            Keep(
                state=state,
                age=getattr(self, f"retention_{state}"),
                count=getattr(self, f"retention_{state}_count"),
            )
            for state in FINAL
        ]


Reader: TypeAlias = tuple[Callable[[str], Any], str]
"""Reads a value, and says what is allowed."""

KEPT = "keep"
NONE = "none"


def _within(low: Any, high: Any, value: Any) -> Any:
    if not low <= value <= high:
        raise ValueError
    return value


def _number(low: int, high: int) -> Reader:
    return lambda text: _within(low, high, int(text)), f"an integer from {low:,} to {high:,}"


def _duration(unit: str, low: str, high: str) -> Reader:
    allowed = f"a number of {'milliseconds' if unit == 'ms' else 'seconds'} between {low} and {high}"
    return lambda text: _within(parse(low), parse(high), parse(f"{text.strip()}{unit}")), allowed


def _window(calls: int, low: str, high: str) -> Reader:
    def read(text: str) -> Any:
        if text.strip().isdecimal():
            return _within(1, calls, int(text))
        return _within(parse(low), parse(high), parse(text))

    return read, f"a number of calls from 1 to {calls}, or a duration between {low} and {high} such as '2m'"


def _fraction() -> Reader:
    least = nextafter(0, 1)
    return lambda text: _within(least, 1, float(text)), "a fraction above 0, at most 1"


def _age(low: str, high: str) -> Reader:
    allowed = f"a duration between {low} and {high} such as '7d', or {KEPT!r} to keep them forever"
    return _or_kept(lambda text: _within(parse(low), parse(high), parse(text))), allowed


def _count(low: int, high: int) -> Reader:
    number, allowed = _number(low, high)
    return _or_kept(number), f"{allowed}, or {KEPT!r} to keep all"


def _or_kept(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text.strip().lower() == KEPT else read(text)


def _rate() -> Reader:
    return parse_rate, "a rate such as '200/s' or '600/m', at least one a day and at most 10,000 a second"


def _networks() -> Reader:
    def read(text: str) -> tuple[str, ...]:
        return () if text.strip().lower() == NONE else tuple(str(_network(part.strip())) for part in text.split(","))

    return read, f"addresses and networks separated by commas, such as '10.0.0.7, 10.1.0.0/16', or {NONE!r}"


def _prefix() -> Reader:
    def read(text: str) -> str:
        given = text.strip()
        if not is_prefix(given):
            raise ValueError
        return "" if given.lower() == NONE else given

    return read, f"{PREFIX_ALLOWED}, or {NONE!r}"


def _network(text: str) -> Any:
    found = ip_network(text)
    return found.network_address if found.num_addresses == 1 else found


def _choice(*allowed: str) -> Reader:
    by_form = {choice.lower(): choice for choice in allowed}

    def read(text: str) -> str:
        if text.strip().lower() not in by_form:
            raise ValueError
        return by_form[text.strip().lower()]

    return read, "one of " + ", ".join(allowed)


def _list(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: tuple(read(part.strip()) for part in text.split(","))


def _public_url(text: str) -> str:
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or not text.strip().isprintable():
        raise ValueError
    if "@" in parts.netloc or parts.query or parts.fragment or " " in parts.netloc + parts.path:
        raise ValueError
    return text.strip().rstrip("/")


# What workers do about stuck jobs: log them, settle them as timed out, or put them back.
STUCK = ("report", "process", "requeue")
_DUTIES = ("retry", "promote", "expire", "schedule", "probe", "notify", "digest")
_STRING: Reader = (str, "a string")

READERS: dict[str, Reader] = {
    "database_url": _STRING,
    "store_timeout_sec": _duration("s", "1s", "1h"),
    "app": _STRING,
    "policies_file": _STRING,
    "retry_max_attempts": _number(1, 1_000),
    "retry_base_delay_ms": _duration("ms", "0s", "30d"),
    "retry_jitter_max_ms": _duration("ms", "0s", "30d"),
    "circuit_window": _window(LARGEST_WINDOW, "1s", "1h"),
    "circuit_fail_threshold": _fraction(),
    "circuit_cooldown_ms": _duration("ms", "100ms", "1d"),
    "circuit_most_names": _number(1, MOST_NAMES),
    "worker_concurrency": _number(1, 10_000),
    "worker_lease_ttl_sec": _duration("s", "1s", "1d"),
    "stuck": _choice(*STUCK),
    "stuck_after_sec": _duration("s", "1s", "365d"),
    # Jobs of lost workers must not wait for long.
    "duty_reclaim_interval_sec": _duration("s", "100ms", "5m"),
    "duty_reclaim_limit": _number(1, 10_000),
    **{f"duty_{duty}_interval_sec": _duration("s", "100ms", "1d") for duty in _DUTIES},
    **{f"duty_{duty}_limit": _number(1, 10_000) for duty in _DUTIES},
    "duty_redrive_interval_sec": _duration("s", "100ms", "1m"),
    "duty_redrive_limit": _number(1, 1_000),
    "duty_project_interval_sec": _duration("s", "0.1s", "1d"),
    "duty_project_limit": _number(1, 10_000),
    "duty_alert_interval_sec": _duration("s", "100ms", "1h"),
    "duty_alert_limit": _number(1, 1),
    "duty_prune_interval_sec": _duration("s", "1s", "1d"),
    "duty_prune_limit": _number(1, 10_000),
    # At least an hour: a client that repeats an enqueue must find its job, not store it again.
    **{f"retention_{state}": _age("1h", "3650d") for state in FINAL},
    **{f"retention_{state}_count": _count(1, 10**9) for state in FINAL},
    "retention_results": _age("1m", "3650d"),
    "retention_audit": _age("30d", "3650d"),
    "request_rate": _rate(),
    "failed_request_rate": _rate(),
    "trusted_proxies": _networks(),
    # Longer than a receiver may be away: until then, a delivery can be sent again.
    "retention_deliveries": _age("3d", "3650d"),
    "smtp_url": (parse_smtp_url, SMTP_ALLOWED),
    "public_url": (_public_url, "https://host or https://host/path: where people open this installation"),
    "webhook_ports": (_list(lambda port: _within(1, 65_535, int(port))), "ports, such as '443,80'"),
    "webhook_allowed_networks": (
        _list(parse_network),
        "networks, such as '10.1.0.0/16,fd00::/8': private addresses that webhooks may reach",
    ),
    "metrics_prefix": _prefix(),
    "metrics_networks": _networks(),
    "retention_groups": _age("1d", "3650d"),
    "retention_statistics_minutes": _age("1h", "3650d"),
    "retention_statistics_hours": _age("1d", "3650d"),
    "retention_statistics_days": _age("1d", "3650d"),
    "log_level": _choice("DEBUG", "INFO", "WARNING", "ERROR"),
    "log_format": _choice("text", "json"),
}


def load(
    code: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Merge the fields given by the code, `mulligan.toml` in the folder, and the `MULLIGAN_…` variables, in this order.

    Raises BadSetting or ConfigurationError, with the name, the value and what is allowed.
    """
    environment = os.environ if environment is None else environment
    for variable in environment:
        _warn_of(variable)
    given = dict(code or {})
    known = {field.name for field in fields(Settings)}
    if strange := sorted(set(given) - known):
        raise ConfigurationError(unknown("setting", strange[0], known))
    if given.get("stuck", STUCK[0]) not in STUCK:
        raise BadSetting("stuck", given["stuck"], READERS["stuck"][1])
    given |= _from_file((folder or Path()) / FILE)
    given |= {
        field_of(key): _read(PREFIX + key.upper(), key, text)
        for key in READERS
        if (text := environment.get(PREFIX + key.upper())) not in (None, "")
    }
    return Settings(**given)


def field_of(key: str) -> str:
    """The field of `Settings` for a key in the file: without the unit."""
    return key.removesuffix("_sec").removesuffix("_ms")


@cache
def _warn_of(variable: str) -> None:
    """Warn once about a variable that is nearly a setting. Others may belong to Kubernetes: `MULLIGAN_PORT`."""
    name = variable.removeprefix(PREFIX)
    if name == variable or name.lower() in READERS:
        return
    if near := nearest(name, READERS):
        logger.warning("%s is not a setting and is ignored; did you mean %s%s?", variable, PREFIX, near.upper())


def _from_file(path: Path) -> dict[str, Any]:
    try:
        content = read_contents(path, largest=LARGEST)
    except FileNotFoundError:
        return {}
    except Unreadable as problem:
        raise ConfigurationError(f"{path} cannot be read: {problem}") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from error
    strange = sorted(set(table) - set(READERS))
    if strange:
        possible = f"{did_you_mean(strange[0], READERS)}known are: {', '.join(READERS)}"
        raise ConfigurationError(f"{path} has an unknown key {strange[0]!r}; {possible}")
    return {field_of(key): _read(f"{path}: {key}", key, str(value)) for key, value in table.items()}


def _read(shown: str, key: str, text: str | None) -> Any:
    reader, allowed = READERS[key]
    try:
        return reader(text or "")
    except (ValueError, BadDuration, BadRate):
        raise BadSetting(shown, without_password(text), allowed) from None
