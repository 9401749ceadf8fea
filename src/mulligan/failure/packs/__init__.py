"""Rules for what fails everywhere. Ask the packs last: a task and its app know better."""

from mulligan.failure.packs import database, http, process, system
from mulligan.failure.rule import Rule

# In the order they are asked. Clients wrap what the system says. Programs come before it too: one that cannot be
# started is more than a missing file.
BUILT_IN: dict[str, tuple[Rule, ...]] = {
    "http": http.RULES,
    "database": database.RULES,
    "process": process.RULES,
    "system": system.RULES,
}
PACKS: tuple[Rule, ...] = tuple(rule for rules in BUILT_IN.values() for rule in rules)

__all__ = ["BUILT_IN", "PACKS", "database", "http", "process", "system"]
