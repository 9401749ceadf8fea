"""The policy in force for the jobs of one kind and owner: the code's policy with the file's changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import structs

from mulligan.failure.policy import RetryPolicy
from mulligan.failure.rule import Rule
from mulligan.policies.section import Section
from mulligan.records.job import ONCE, Job

R = TypeVar("R")

# If the file gives these, they replace the values stored with a job.
CAPS = ("max_attempts", "max_crashes", "max_snoozes")


@dataclass(frozen=True, slots=True)
class InForce:
    """`rules` are only the file's, which are asked before the code's. `sources` names the section of the file that gave
    each value."""

    policy: RetryPolicy
    timeout: timedelta
    rules: tuple[Rule, ...] = ()
    sources: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    version: str | None = None
    """The version of the file; None without one."""
    at_most_once: bool = False
    """Set by the code; the file cannot change it."""

    @property
    def caps(self) -> dict[str, int]:
        """The caps that are stored with each job when it is enqueued."""
        return ONCE if self.at_most_once else {name: getattr(self.policy, name) for name in CAPS}

    def with_section(self, section: Section) -> "InForce":
        """The same, with the values of the section applied."""
        given = {name: value for name, value in section.values().items() if not (self.at_most_once and name in CAPS)}
        rules: tuple[Rule, ...] = given.pop("rules", ())
        sources = {**self.sources, **dict.fromkeys(given, section.path)}
        if rules:
            sources["rules"] = ", ".join(filter(None, (section.path, self.sources.get("rules"))))
        timeout = given.pop("timeout", self.timeout)
        if "backoff" in given:
            given["backoff"] = given["backoff"].override(self.policy.backoff)
        if "limits" in given:
            given["limits"] = {**self.policy.limits, **given["limits"]}
        policy = replace(self.policy, **given) if given else self.policy
        return replace(
            self, policy=policy, timeout=timeout, rules=(*rules, *self.rules), sources=MappingProxyType(sources)
        )

    def apply_to(self, job: Job[R]) -> Job[R]:
        """The job with the limits in force instead of those from its enqueue. Those that its caller gave it stay."""
        given: dict[str, Any] = {name: getattr(self.policy, name) for name in CAPS if name in self.sources}
        if job.own_max_attempts is not None:
            given["max_attempts"] = job.own_max_attempts
        if self.at_most_once or job.at_most_once:
            given = dict(ONCE)
        if "timeout" in self.sources and job.own_timeout is None:
            given["timeout"] = self.timeout
        return structs.replace(job, **given) if given else job
