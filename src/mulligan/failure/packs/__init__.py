"""Rules for what fails everywhere. Ask the packs last: a task and its app know better."""

from mulligan.failure.packs import process, system
from mulligan.failure.rule import Rule

# Programs first: one that cannot be started is more than a missing file.
PACKS: tuple[Rule, ...] = (*process.RULES, *system.RULES)

__all__ = ["PACKS", "process", "system"]
