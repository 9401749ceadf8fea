"""Reads a policies file. Reports all mistakes at once, each with its path and what is possible."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from typing import Any, TypeVar

from mulligan.errors import BadPolicies, BadPolicy
from mulligan.failure import checks
from mulligan.failure.backoff import Added, Decorrelated, Full
from mulligan.failure.checks import bad_value
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.rule import Rule
from mulligan.failure.windows import Window
from mulligan.policies import owner, queue, service
from mulligan.policies.in_force import InForce
from mulligan.policies.section import BACKOFFS, KEYS, BackoffChange, Section, parts_of
from mulligan.records.limit import EVERY_OWNER
from mulligan.service.config import ServiceBook, check_name
from mulligan.values.check import shown
from mulligan.values.duration import LONGEST
from mulligan.values.suggest import did_you_mean

T = TypeVar("T")

# The largest file, in bytes.
LARGEST = 2**20
TOP = ("default", "kinds", "owners", "queues", "services", "retry")
PLAIN = ("max_attempts", "deadline", "max_crashes", "max_snoozes", "longest_hint")
BACKOFF_KEYS = {"type": "type", "base": "delay", "delay": "delay", "delays": "delays", "factor": "factor"} | {
    "cap": "cap",
    "jitter": "jitter",
}
WINDOW_KEYS = ("start", "end", "days", "timezone", "allow")
RULE_KEYS = {"code": "code", "class": "error_class", "exception": "when", "status": "status", "exit": "exit"} | {
    "errno": "errno",
    "message": "message",
    "retry_after": "retry_after",
    "name": "name",
    "blames_service": "blames_service",
    "line": "line",
}
CONDITIONS = ("exception", "status", "exit", "errno", "message")
# Alternative spellings, and how to convert their values.
SPELLINGS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "maxRetries": ("max_attempts", lambda retries: checks.check_integer("", retries, least=0, most=999_999) + 1),
    "backoffStrategy": ("backoff", lambda strategy: strategy),
}
JOB_TYPE = "jobType"


@dataclass(frozen=True, slots=True)
class Kind:
    section: Section
    owners: Mapping[str, Section]
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Policies:
    """A whole file. `version` is a short hash of its content; None: there is no file."""

    version: str | None = None
    default: Section | None = None
    owners: Mapping[str, Section] = field(default_factory=dict)
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    job_types: Mapping[str, Kind] = field(default_factory=dict)
    """Kinds of the alternative spelling, in lower case: they are compared ignoring case."""
    services: service.ServiceChanges = field(default_factory=dict)
    queues: queue.QueueChanges = field(default_factory=dict)
    quotas: owner.OwnerChanges = field(default_factory=dict)
    """The weights and limits of owners."""

    @property
    def all_kinds(self) -> list[str]:
        return [*self.kinds, *self.job_types]

    def unknown_kinds(self, kinds: Iterable[str]) -> list[str]:
        """The kinds of the file that are not among these."""
        known = set(kinds)
        folded = {name.casefold() for name in known}
        return [name for name in self.kinds if name not in known] + [
            name for name in self.job_types if name not in folded
        ]

    def override(self, code: InForce, *, kind: str, owner: str) -> InForce:
        """The code's policy, overridden by the file's default, owner, kind, and owner in the kind, in this order."""
        found = replace(code, version=self.version)
        for section in self.sections(kind, owner):
            found = found.with_section(section)
        return found

    def override_services(self, book: ServiceBook) -> ServiceBook:
        """The services of the code with the file's changes."""
        return service.override(book, self.services) if self.services else book

    def sections(self, kind: str, owner: str) -> list[Section]:
        found = [self.default, *_owned(self.owners, owner)]
        if named := self.kinds.get(kind) or self.job_types.get(kind.casefold()):
            found += [named.section, *_owned(named.owners, owner)]
        return [section for section in found if section is not None]


def _owned(sections: Mapping[str, Section], name: str) -> list[Section | None]:
    """The section of `"*"`, then that of this owner; none for a job without an owner."""
    return [sections.get(EVERY_OWNER), sections.get(name)] if name else []


def read(content: bytes, shown: str) -> Policies:
    """The policies in a file's content. Raises BadPolicies with every mistake."""
    # Imported late: without a file, YAML is not needed.
    from mulligan.policies import yaml

    reading = _Reading()
    if len(content) > LARGEST:
        raise BadPolicies(shown, [f"it takes more than {LARGEST:,} bytes, which is the limit"])
    try:
        policies = reading.file(yaml.parse(content), version_of(content))
    except BadPolicy as error:
        raise BadPolicies(shown, [str(error)]) from None
    if reading.mistakes:
        raise BadPolicies(shown, reading.mistakes)
    return policies


def version_of(content: bytes) -> str:
    return sha256(content).hexdigest()[:12]


class _Reading:
    """Reads what is valid. The rest is noted and left out."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []

    def file(self, value: Any, version: str) -> Policies:
        top = self._mapping("", value, TOP)
        kinds = self._named("kinds", top.get("kinds"), self._kind)
        job_types = self._job_types("retry", top.get("retry"))
        owners = self._named("owners", top.get("owners"), self._owner)
        for name in kinds:
            if name.casefold() in job_types:
                self._note(f"kinds.{name}", "is named in retry.policies too; give it in one place")
        return Policies(
            version=version,
            default=self._section("default", top["default"]) if "default" in top else None,
            owners={name: section for name, (section, _) in owners.items()},
            kinds=kinds,
            job_types=job_types,
            services=self._named("services", top.get("services"), self._service),
            queues=self._named("queues", top.get("queues"), self._queue),
            quotas={name: changes for name, (_, changes) in owners.items() if changes},
        )

    # Sections

    def _kind(self, path: str, value: Any) -> Kind:
        given = self._mapping(path, value, (*KEYS, *SPELLINGS, "owners", "concurrency"))
        owners = self._named(f"{path}.owners", given.pop("owners", None), self._section)
        for name in owners:
            self._part(f"{path}.owners.{name}", owner.check_owner_name, "", name)
        at_once = self._check_all(path, _part_of(given, "concurrency"), queue.check_queue).get("concurrency")
        return Kind(self._section(path, given), owners, at_once)

    def _job_types(self, path: str, value: Any) -> dict[str, Kind]:
        listed = self._mapping(path, value, ("policies",)).get("policies")
        found: dict[str, Kind] = {}
        for path_of_one, one in self._each(f"{path}.policies", listed):
            given = self._mapping(path_of_one, one, (JOB_TYPE, *KEYS, *SPELLINGS, "owners"))
            name, kind = given.pop(JOB_TYPE, None), self._kind(path_of_one, given)
            if not isinstance(name, str) or not name:
                self._note(f"{path_of_one}.{JOB_TYPE}", f"is {name!r}, but it must be the name of a kind")
            elif name.casefold() in found:
                self._note(f"{path_of_one}.{JOB_TYPE}", f"is {name!r}, which was named before; give it in one place")
            else:
                found[name.casefold()] = kind
        return found

    def _service(self, path: str, value: Any) -> dict[str, Any]:
        self._part(path, check_name, path.removeprefix("services."))
        changes = self._mapping(path, value, service.KEYS)
        before = len(self.mistakes)
        for key, one in changes.items():
            self._part(f"{path}.{key}", service.check_key, key, one)
        if len(self.mistakes) == before:
            self._part(f"{path}.min_calls", service.check_together, changes)
        return changes

    def _owner(self, path: str, value: Any) -> tuple[Section, dict[str, Any]]:
        self._part(path, owner.check_owner_name, "", path.removeprefix("owners."))
        given = self._mapping(path, value, (*KEYS, *SPELLINGS, *owner.KEYS))
        changes = {key: given.pop(key) for key in owner.KEYS if key in given}
        return self._section(path, given), self._check_all(path, changes, owner.check_owner)

    def _queue(self, path: str, value: Any) -> dict[str, Any]:
        self._part(path, queue.check_queue_name, "", path.removeprefix("queues."))
        return self._check_all(path, self._mapping(path, value, queue.KEYS), queue.check_queue)

    def _check_all(self, path: str, changes: dict[str, Any], check: Callable[[str, Any], None]) -> dict[str, Any]:
        for key, one in changes.items():
            self._part(f"{path}.{key}", _require_value, one)
            self._part(f"{path}.{key}", check, key, one)
        return changes

    def _section(self, path: str, value: Any) -> Section:
        given = self._by_key(path, self._mapping(path, value, (*KEYS, *SPELLINGS)))
        readers = {
            **dict.fromkeys(PLAIN, self._plain),
            "timeout": self._timeout,
            "backoff": self._backoff,
            "limits": self._limits,
            "windows": self._windows,
            "rules": self._rules,
        }
        read = {key: readers[key](f"{path}.{spelled}", key, one) for key, (spelled, one) in given.items()}
        return Section(path=path, **{key: one for key, one in read.items() if one is not _WRONG})

    def _by_key(self, path: str, given: dict[str, Any]) -> dict[str, tuple[str, Any]]:
        """By canonical key, each with the spelling that was used."""
        found: dict[str, tuple[str, Any]] = {}
        for spelled, value in given.items():
            key, meant = SPELLINGS.get(spelled, (spelled, lambda same: same))
            if key in found:
                self._note(f"{path}.{spelled}", f"means the same as {found[key][0]}; give one of them")
            elif (one := self._part(f"{path}.{spelled}", meant, value)) is not _WRONG:
                found[key] = (spelled, one)
        return found

    # Keys

    def _plain(self, path: str, key: str, value: Any) -> Any:
        return self._part(path, _check_policy_key, key, value)

    def _timeout(self, path: str, _key: str, value: Any) -> Any:
        return self._part(path, _check_timeout, value)

    def _limits(self, path: str, _key: str, value: Any) -> dict[str, int]:
        codes = self._mapping(path, value, None)
        read = {code: self._part(f"{path}.{code}", _limit, code, limit) for code, limit in codes.items()}
        return {code: limit for code, limit in read.items() if limit is not _WRONG}

    def _backoff(self, path: str, _key: str, value: Any) -> Any:
        # A bare string is only the type.
        is_word = isinstance(value, str)
        given = {"type": value} if is_word else self._mapping(path, value, BACKOFF_KEYS)
        if (type_ := str(given.get("type")).lower()) not in BACKOFFS:
            known = f"is {shown(given.get('type'))}, but it must be one of {', '.join(BACKOFFS)}"
            return self._note(path if is_word else f"{path}.type", known)
        del given["type"]
        parts: dict[str, Any] = {}
        for key, one in given.items():
            part = self._backoff_part(f"{path}.{key}", type_, BACKOFF_KEYS[key], one)
            if BACKOFF_KEYS[key] in parts:
                self._note(f"{path}.{key}", "is the same as base; give one of them")
            parts[BACKOFF_KEYS[key]] = part
        if type_ == "steps" and "delays" not in parts:
            return self._note(f"{path}.delays", "is missing; it must be a list such as [1m, 5m, 15m]")
        return _WRONG if _WRONG in parts.values() else BackoffChange(type_, parts)

    def _backoff_part(self, path: str, type_: str, part: str, value: Any) -> Any:
        if part not in parts_of(type_):
            takes = [key for key, name in BACKOFF_KEYS.items() if name in parts_of(type_)]
            return self._note(path, f"is not a key of {type_}; it takes: {', '.join(takes)}")
        required = {"delays": ["1s"]} if type_ == "steps" else {"delay": "1s"}

        def make() -> Any:
            given = _jitter(value) if part == "jitter" else value
            return getattr(BACKOFFS[type_](**(required | {part: given})), part)

        return self._part(path, make)

    def _windows(self, path: str, _key: str, value: Any) -> Any:
        read = [self._window(path_of_one, one) for path_of_one, one in self._each(path, value)]
        if _WRONG in read:
            return _WRONG
        return self._part(path, _check_policy_key, "windows", read)

    def _window(self, path: str, value: Any) -> Any:
        given = self._mapping(path, value, WINDOW_KEYS)
        missing = [key for key in ("start", "end") if key not in given]
        for key in missing:
            self._note(f"{path}.{key}", "is missing; it must be a time such as '09:00'")
        for key, one in given.items():
            self._part(f"{path}.{key}", _check_window, key, one)
        return _WRONG if missing else _make(Window, given)

    def _rules(self, path: str, _key: str, value: Any) -> Any:
        read = [self._rule(path_of_one, one) for path_of_one, one in self._each(path, value)]
        return tuple(rule for rule in read if rule is not _WRONG)

    def _rule(self, path: str, value: Any) -> Any:
        given = {key: _condition(key, one) for key, one in self._mapping(path, value, RULE_KEYS).items()}
        missing = [key for key in ("code", "class") if key not in given]
        for key in missing:
            self._note(f"{path}.{key}", "is missing")
        if not any(key in given for key in CONDITIONS):
            missing.append("condition")
            self._note(path, f"has no condition; give at least one of {', '.join(CONDITIONS)}")
        for key, one in given.items():
            self._part(f"{path}.{key}", _check_rule, RULE_KEYS[key], one)
        named = {"name": path} | {RULE_KEYS[key]: one for key, one in given.items()}
        return _WRONG if missing else _make(Rule, named)

    # Values

    def _named(self, path: str, value: Any, read: Callable[[str, Any], T]) -> dict[str, T]:
        return {name: read(f"{path}.{name}", one) for name, one in self._mapping(path, value, None).items()}

    def _mapping(self, path: str, value: Any, known: Collection[str] | None) -> dict[str, Any]:
        """The values under the known keys; with None, under any key."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            possible = f"; known are: {', '.join(known)}" if known else ""
            self._note(path or "the file", f"is {shown(value)}, but it must be a mapping{possible}")
            return {}
        for key in value:
            if not isinstance(key, str) or not key:
                self._note(
                    _below(path, str(key)),
                    f"is {key!r}, which is not a name; use a string, in quotes if necessary",
                )
            elif known is not None and key not in known:
                possible = f"{did_you_mean(key, known)}known are: {', '.join(known)}"
                self._note(_below(path, key), f"is unknown; {possible}")
        return {key: one for key, one in value.items() if isinstance(key, str) and key and _is_in(key, known)}

    def _each(self, path: str, value: Any) -> list[tuple[str, Any]]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._note(path, f"is {shown(value)}, but it must be a list")
            return []
        return [(f"{path}[{number}]", one) for number, one in enumerate(value)]

    def _part(self, path: str, make: Callable[..., Any], *given: Any) -> Any:
        """The result of `make`; a mistake is noted."""
        try:
            return make(*given)
        except BadPolicy as error:
            return self._note(path, error.problem)

    def _note(self, path: str, problem: str) -> Any:
        self.mistakes.append(f"{path} {problem}")
        return _WRONG


_WRONG: Any = object()


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _is_in(key: str, known: Collection[str] | None) -> bool:
    return known is None or key in known


def _make(kind: Callable[..., T], given: dict[str, Any]) -> Any:
    """The value, unless a part is wrong: the parts were checked and noted one by one."""
    try:
        return kind(**given)
    except BadPolicy:
        return _WRONG


def _require_value(value: Any) -> None:
    if value is None:
        raise BadPolicy("", "is empty; leave it out")


def _check_policy_key(key: str, value: Any) -> Any:
    return getattr(RetryPolicy(**{key: value}), key)


def _check_window(key: str, value: Any) -> None:
    if key == "allow" and not isinstance(value, bool):
        raise bad_value("", value, "true (retries run only inside) or false (never inside)")
    given: dict[str, Any] = {"start": "00:00", "end": "24:00", key: value}
    Window(**given)


def _check_rule(key: str, value: Any) -> None:
    given: dict[str, Any] = {"code": "SOUND", "error_class": "final", "message": ".", key: value}
    Rule(**given)


def _check_timeout(given: Any) -> timedelta:
    return checks.check_duration("", given, most=LONGEST, above_zero=True)


def _limit(code: str, limit: Any) -> int:
    return RetryPolicy(limits={code: limit}).limits[code]


def _jitter(value: Any) -> Any:
    word = value.lower() if isinstance(value, str) else value
    match word:
        case None | "none":
            return None
        case "full":
            return Full()
        case "decorrelated":
            return Decorrelated()
        case {"added": duration, **others} if not others:
            return Added(duration)
        case int() | float() if not isinstance(word, bool) and 0 <= word <= 1:
            return word
    raise bad_value("", value, "none, a ratio from 0 to 1, full, decorrelated or {added: 5s}")


def _condition(key: str, value: Any) -> Any:
    """As `Rule` takes it: a list of exceptions is a tuple, '500-599' a range."""
    if key == "exception" and isinstance(value, list):
        return tuple(value)
    if key in ("status", "exit", "errno"):
        return [_range(one) for one in value] if isinstance(value, list) else _range(value)
    return value


def _range(value: Any) -> Any:
    low, dash, high = value.replace(" ", "").partition("-") if isinstance(value, str) else ("", "", "")
    is_range = dash and all(part.isdecimal() and len(part) < 10 for part in (low, high)) and int(low) <= int(high)
    return range(int(low), int(high) + 1) if is_range else value


def _part_of(given: dict[str, Any], key: str) -> dict[str, Any]:
    return {key: given.pop(key)} if key in given else {}
