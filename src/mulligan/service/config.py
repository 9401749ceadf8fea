"""The configuration of a service: when it opens, for how long, how it is probed, and its rate limit."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, TypeAlias

from mulligan.errors import BadRate
from mulligan.failure import checks
from mulligan.failure.checks import bad_value
from mulligan.failure.error_codes import CODE_ALLOWED, is_code
from mulligan.records.rate import parse_rate
from mulligan.values.check import LONGEST_NAME
from mulligan.values.duration import BadDuration, Duration, describe, parse

MODES = ("hold", "fail_fast")
LARGEST_WINDOW = 500
LONGEST_WINDOW = timedelta(hours=1)
LONGEST_COOLDOWN = timedelta(days=1)
MOST_SERVICES = 1_000
MOST_NAMES = 10_000
_MIN_CALLS = 10
_MOST_PROBES = 100
_MOST_KNOWN = 1_000
_NAME = re.compile(r"[^\s*](?:[^*]*[^\s*])?\*?|\*")
_WINDOW = (
    f"a number of calls from 1 to {LARGEST_WINDOW}, or a duration from 1s to {describe(LONGEST_WINDOW)} such as '2m'"
)

CallWindow: TypeAlias = int | timedelta
Probe: TypeAlias = Callable[[], Any]


@dataclass(frozen=True, slots=True, init=False)
class Service:
    """An external dependency of tasks. A name that ends in `*` is a pattern and applies to every name with that prefix.

    The service opens when the fraction `open_at` of at least `min_calls` calls in the window failed, or after
    `min_calls` failures in a row. While it is open, `mode` holds its jobs or fails them at once with `fail_code`. After
    `cooldown` it is probed. While it is failing, retries are limited to the fraction `budget` of first attempts. `rate`
    is the limit of calls per second at any time. For a pattern, `most` is the number of computed names that are tracked
    separately; all further names share the service named by the pattern itself.
    """

    name: str
    mode: str
    window: CallWindow
    min_calls: int
    open_at: float
    cooldown: timedelta
    probes: int
    budget: float | None
    rate: float | None
    probe: Probe | None = field(compare=False)
    fail_code: str
    most: int

    def __init__(
        self,
        name: str,
        *,
        mode: str = "hold",
        window: int | Duration = 20,
        min_calls: int | None = None,
        open_at: float = 0.5,
        cooldown: Duration = "30s",
        probes: int = 1,
        budget: float | None = 0.1,
        rate: float | str | None = None,
        probe: Probe | None = None,
        fail_code: str = "SERVICE_OPEN",
        most: int = 1_000,
    ) -> None:
        where = f"of service {check_name(name)!r}"
        length = _window(f"window {where}", window)
        checks.set_fields(
            self,
            name=name,
            mode=_mode(f"mode {where}", mode),
            window=length,
            min_calls=_min_calls(f"min_calls {where}", min_calls, length),
            open_at=_fraction(f"open_at {where}", open_at),
            cooldown=_cooldown(f"cooldown {where}", cooldown),
            probes=checks.check_integer(f"probes {where}", probes, least=1, most=_MOST_PROBES),
            budget=None if budget is None else checks.check_number(f"budget {where}", budget, least=0, most=1),
            rate=_rate(f"rate {where}", rate),
            probe=_probe(f"probe {where}", name, probe),
            fail_code=_code(f"fail_code {where}", fail_code),
            most=checks.check_integer(f"most {where}", most, least=1, most=MOST_NAMES),
        )

    @property
    def is_pattern(self) -> bool:
        return self.name.endswith("*")

    def matches(self, name: str) -> bool:
        return name.startswith(self.name[:-1]) if self.is_pattern else name == self.name

    def with_changes(self, **changes: Any) -> "Service":
        """The same service with other values. If `window` and `min_calls` do not fit together, the one not given is
        adjusted."""
        given = {part.name: getattr(self, part.name) for part in fields(self)} | changes
        if "min_calls" not in changes and isinstance(given["window"], int):
            given["min_calls"] = min(given["min_calls"], given["window"])
        if "window" not in changes and isinstance(given["window"], int) and isinstance(given["min_calls"], int):
            given["window"] = min(max(given["min_calls"], given["window"]), LARGEST_WINDOW)
        return Service(**given)


class ServiceBook:
    """The services of an app. Every name has one: the exact match, the longest matching pattern, or the default."""

    __slots__ = ("_exact", "_known", "_patterns", "default", "has_rates")

    def __init__(self, services: Iterable[Service] = (), default: Service | None = None) -> None:
        listed = list(services)
        if not all(isinstance(service, Service) for service in listed):
            raise bad_value("services", services, "a list of Service(…)")
        if len(listed) > MOST_SERVICES:
            raise bad_value("the number of services", len(listed), f"at most {MOST_SERVICES:,}; use patterns")
        by_name = {service.name: service for service in listed}
        if len(by_name) < len(listed):
            twice = next(service.name for service in listed if service is not by_name[service.name])
            raise bad_value("the name of a service", twice, "given once")
        self.default = default or Service("*")
        self._exact = by_name
        self._patterns = sorted((one for one in listed if one.is_pattern), key=lambda one: -len(one.name))
        self._known: dict[str, Service] = {}
        self.has_rates = any(service.rate is not None for service in (self.default, *listed))

    def of(self, name: str) -> Service:
        found = self._exact.get(name) or self._known.get(name)
        if found is None:
            found = next((pattern for pattern in self._patterns if pattern.matches(name)), self.default)
            if len(self._known) >= _MOST_KNOWN:
                self._known = {}
            self._known[name] = found
        return found

    def with_services(self, services: Iterable[Service]) -> "ServiceBook":
        """A copy with these services added; they replace those of the same name."""
        return ServiceBook({**self._exact, **{one.name: one for one in services}}.values(), self.default)

    def __iter__(self) -> Iterator[Service]:
        return iter(self._exact.values())

    def __len__(self) -> int:
        return len(self._exact)


def check_name(name: str) -> str:
    if not isinstance(name, str) or not (len(name) <= LONGEST_NAME and name.isprintable() and _NAME.fullmatch(name)):
        allowed = f"1 to {LONGEST_NAME} printable characters, such as 'gateway', or a pattern such as 'site:*'"
        raise bad_value("the name of a service", name, allowed)
    return name


def check_exact_name(name: str) -> str:
    """The name of one service, not a pattern."""
    if check_name(name).endswith("*"):
        raise bad_value("the name of a service", name, "a single service such as 'site:example.org', not a pattern")
    return name


def _mode(where: str, mode: str) -> str:
    if mode not in MODES:
        raise bad_value(where, mode, "one of " + ", ".join(repr(one) for one in MODES))
    return mode


def _window(where: str, window: int | Duration) -> CallWindow:
    if isinstance(window, int) and not isinstance(window, bool):
        if not 1 <= window <= LARGEST_WINDOW:
            raise bad_value(where, window, _WINDOW)
        return window
    if not isinstance(window, str | timedelta):
        raise bad_value(where, window, _WINDOW)
    length = _parsed(where, window, _WINDOW)
    if not timedelta(seconds=1) <= length <= LONGEST_WINDOW:
        raise bad_value(where, window, _WINDOW)
    return length


def _min_calls(where: str, given: int | None, window: CallWindow) -> int:
    most = window if isinstance(window, int) else LARGEST_WINDOW
    if given is None:
        return min(_MIN_CALLS, most)
    return checks.check_integer(where, given, least=1, most=most)


def _fraction(where: str, value: float) -> float:
    fraction = checks.check_number(where, value, least=0, most=1)
    if not fraction:
        raise bad_value(where, value, "a fraction above 0 and at most 1, such as 0.5")
    return fraction


def _cooldown(where: str, cooldown: Duration) -> timedelta:
    allowed = f"a duration from 100ms to {describe(LONGEST_COOLDOWN)} such as '30s'"
    length = _parsed(where, cooldown, allowed)
    if not timedelta(milliseconds=100) <= length <= LONGEST_COOLDOWN:
        raise bad_value(where, cooldown, allowed)
    return length


def _parsed(where: str, length: Duration, allowed: str) -> timedelta:
    try:
        return parse(length)
    except BadDuration:
        raise bad_value(where, length, allowed) from None


def _rate(where: str, rate: float | str | None) -> float | None:
    try:
        return None if rate is None else parse_rate(rate).per_second
    except BadRate:
        raise bad_value(where, rate, f"{BadRate.allowed}, or None") from None


def _probe(where: str, name: str, probe: Probe | None) -> Probe | None:
    if probe is not None and name.endswith("*"):
        raise bad_value(where, probe, "None: a probe takes no arguments, and this pattern stands for many services")
    if probe is not None and not (callable(probe) and _takes_no_arguments(probe)):
        raise bad_value(where, probe, "a function that is called without arguments, or None")
    return probe


def _takes_no_arguments(probe: Probe) -> bool:
    try:
        inspect.signature(probe).bind()
    except TypeError:
        return False
    except ValueError:
        # A function written in C may have no signature.
        return True
    return True


def _code(where: str, code: str) -> str:
    if not is_code(code):
        raise bad_value(where, code, CODE_ALLOWED)
    return code
