"""Readiness: the components that an installation needs, each judged by a check of the doctor."""

from dataclasses import dataclass
from datetime import datetime

from mulligan.records.finding import Check, Finding, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """`code`, `level`, `found` and `remedy` are those of the doctor's finding. A duty has the time of its last run."""

    name: str
    code: Check
    level: Level
    found: str
    remedy: str
    last_run_at: datetime | None = None


def component(name: str, finding: Finding, *, last_run_at: datetime | None = None) -> Component:
    return Component(
        name=name,
        code=finding.code,
        level=finding.level,
        found=finding.found,
        remedy=finding.remedy,
        last_run_at=last_run_at,
    )
