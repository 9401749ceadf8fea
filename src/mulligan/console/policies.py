"""The retry policies in force, as data and in words."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from mulligan.console.arguments import NAME, check
from mulligan.explain.words import end_sentence, quoted, times
from mulligan.failure.packs.installed import packs
from mulligan.failure.policy import RetryPolicy, Row, schedule
from mulligan.failure.rule import AnyRule, Rule, name_of
from mulligan.policies.file import PolicyFile
from mulligan.policies.in_force import InForce
from mulligan.policies.unknown_names import Names, find_unknown_names
from mulligan.task.registry import Registry
from mulligan.task.task import Task
from mulligan.values.duration import describe

# Of the schedule of a policy.
SHOWN_RETRIES = 20

Sections = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStatus:
    """A rule as people see it. A function decides its code and class only when it is called: then they are empty."""

    name: str
    code: str
    error_class: str
    when: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStatus:
    """The policy in force for the jobs of one kind and owner.

    `rules` are those of the policies file, `code_rules` those of the task and of the app, which are tried next.
    `schedule` is when a job that keeps failing is retried. `sources` names the section of the file that set each value,
    and `version` is the version of the file.
    """

    kind: str
    owner: str
    aliases: tuple[str, ...]
    queue: str
    priority: int
    timeout: timedelta
    max_attempts: int
    max_retries: int
    backoff: str
    limits: Mapping[str, int]
    deadline: timedelta | None
    windows: tuple[str, ...]
    max_crashes: int
    max_snoozes: int
    longest_hint: timedelta
    rules: tuple[RuleStatus, ...]
    code_rules: tuple[RuleStatus, ...]
    schedule: tuple[Row, ...]
    sources: Mapping[str, str]
    version: str | None
    in_words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFileStatus:
    """The policies file: its mistakes, what it sets besides policies, and the names in it that the app does not have.

    If it has mistakes, the previous version stays in force.
    """

    path: str
    version: str | None
    mistakes: tuple[str, ...]
    queues: Sections = field(default_factory=dict)
    services: Sections = field(default_factory=dict)
    owners: Sections = field(default_factory=dict)
    unknown_kinds: tuple[str, ...] = ()
    unknown_queues: tuple[str, ...] = ()
    unknown_services: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesInForce:
    """The policy of each task. `file` is None without a policies file."""

    policies: tuple[PolicyStatus, ...]
    file: PolicyFileStatus | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PackStatus:
    """A pack of rules. `source` is the distribution that has it. One that cannot be loaded has a `problem`."""

    name: str
    source: str
    rules: tuple[RuleStatus, ...]
    problem: str | None


@dataclass(frozen=True, slots=True)
class PolicyConsole:
    """`rules` are those of the app."""

    tasks: Registry
    rules: Sequence[AnyRule]
    in_force: Callable[[str, str], InForce]
    file: PolicyFile
    names: Callable[[], Names]

    @check(kind=NAME, of_owner=NAME)
    def find(self, kind: str | None = None, *, of_owner: str = "") -> PoliciesInForce:
        tasks = list(self.tasks.values()) if kind is None else [self.tasks[kind]]
        found = [_status(task, of_owner, self.in_force(task.name, of_owner), self.rules) for task in tasks]
        return PoliciesInForce(policies=tuple(found), file=self._file())

    def packs(self) -> list[PackStatus]:
        return [
            PackStatus(name=pack.name, source=pack.source, rules=_rules(pack.rules), problem=pack.problem)
            for pack in packs()
        ]

    def _file(self) -> PolicyFileStatus | None:
        file, current = self.file, self.file.current
        if file.path is None:
            return None
        unknown = find_unknown_names(current, self.names())
        return PolicyFileStatus(
            path=str(file.path),
            version=current.version,
            mistakes=file.problem.mistakes if file.problem else (),
            queues=current.queues,
            services=current.services,
            owners=current.quotas,
            unknown_kinds=tuple(unknown.kinds),
            unknown_queues=tuple(unknown.queues),
            unknown_services=tuple(unknown.services),
        )


def _status(task: Task[..., Any, Any], owner: str, standing: InForce, rules_of_app: Sequence[AnyRule]) -> PolicyStatus:
    policy = standing.policy
    return PolicyStatus(
        kind=task.name,
        owner=owner,
        aliases=tuple(task.aliases),
        queue=task.queue,
        priority=task.priority,
        timeout=standing.timeout,
        max_attempts=policy.max_attempts,
        max_retries=policy.max_attempts - 1,
        backoff=_backoff(policy),
        limits=policy.limits,
        deadline=policy.deadline,
        windows=tuple(window.describe() for window in policy.windows),
        max_crashes=policy.max_crashes,
        max_snoozes=policy.max_snoozes,
        longest_hint=policy.longest_hint,
        rules=_rules(standing.rules),
        code_rules=_rules(rule for rule in (*task.rules, *rules_of_app) if _concerns(rule, task)),
        schedule=tuple(schedule(policy, at_most=SHOWN_RETRIES)),
        sources=standing.sources,
        version=standing.version,
        in_words=tuple(_in_words(standing)),
    )


def _concerns(rule: AnyRule, task: Task[..., Any, Any]) -> bool:
    return not isinstance(rule, Rule) or rule.kind is None or rule.kind in (task.name, *task.aliases)


def _rules(rules: Iterable[AnyRule]) -> tuple[RuleStatus, ...]:
    return tuple(map(rule_status, rules))


def rule_status(rule: AnyRule) -> RuleStatus:
    if not isinstance(rule, Rule):
        return RuleStatus(name=name_of(rule), code="", error_class="", when="decided by the function", line="")
    return RuleStatus(
        name=rule.name, code=rule.code, error_class=str(rule.error_class), when=rule.describe(), line=rule.line
    )


def _in_words(standing: InForce) -> Iterator[str]:
    policy = standing.policy
    yield f"It is tried at most {times(policy.max_attempts)}."
    if policy.max_attempts > 1:
        yield f"Between attempts it waits {_backoff(policy)}."
    yield from other_terms(policy)
    yield f"An attempt may take {describe(standing.timeout)}."
    yield _ends(standing)
    for rule in standing.rules:
        line = f", {quoted(rule.line)}" if rule.line else ""
        yield end_sentence(f"Rule {rule.name} is tried before those of the code: {rule.code}, {rule.error_class}{line}")


def _ends(standing: InForce) -> str:
    crashes, snoozes = standing.policy.max_crashes, standing.policy.max_snoozes
    if standing.at_most_once:
        return "It runs at most once: once started, it fails if its worker is lost, its process dies or it is snoozed."
    after = "its first crash" if crashes == 1 else f"{crashes:,} crashes in a row"
    return f"It fails after {after}, or if it is snoozed more than {times(snoozes)}."


def _backoff(policy: RetryPolicy) -> str:
    described = getattr(policy.backoff, "describe", None)
    if callable(described):
        return str(described())
    return f"as {getattr(policy.backoff, '__name__', type(policy.backoff).__name__)}() returns"


def other_terms(policy: RetryPolicy) -> Iterator[str]:
    """The terms of a policy that its delays do not show."""
    for code, limit in policy.limits.items():
        yield f"{code} is never retried." if limit == 0 else f"{code} is retried at most {times(limit)}."
    if policy.deadline is not None:
        yield f"It must be done within {describe(policy.deadline)} of its enqueue."
    for window in policy.windows:
        yield f"Retries run {window.describe()}."
