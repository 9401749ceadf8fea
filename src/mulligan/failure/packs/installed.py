"""Rule packs: those of installed distributions (entry points `mulligan.packs`), and ours."""

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from mulligan.failure import evidence
from mulligan.failure.packs import BUILT_IN
from mulligan.failure.rule import AnyRule, check_rules
from mulligan.failure.text import first_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger("mulligan.packs")

GROUP = "mulligan.packs"


@dataclass(frozen=True, slots=True)
class Pack:
    """Rules under a name. One that cannot be used has none, and says what the problem is."""

    name: str
    source: str
    rules: tuple[AnyRule, ...] = ()
    problem: str | None = None


@cache
def packs() -> tuple[Pack, ...]:
    """All there are, in the order they are asked: others' by name, then ours. Looked for once."""
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    ours = (Pack(name, "mulligan", rules) for name, rules in BUILT_IN.items())
    return (*map(_loaded, found), *ours)


@cache
def rules() -> tuple[AnyRule, ...]:
    return tuple(rule for pack in packs() for rule in pack.rules)


def _loaded(entry: "EntryPoint") -> Pack:
    source = _source(entry)
    try:
        return Pack(entry.name, source, check_rules(entry.load(), f"a pack ({entry.value})"))
    except (Exception, SystemExit) as error:
        # Somebody's mistake costs his rules; it must not cost everybody's work.
        problem = first_line(f"{evidence.type_name(type(error))}: {evidence.message_of(error)}")
        logger.warning("the rule pack %r of %s is left out: %s", entry.name, source, problem)
        return Pack(entry.name, source, problem=problem)


def _source(entry: "EntryPoint") -> str:
    """The distribution and its version. Metadata may be damaged."""
    found = entry.dist
    unknown = "an unknown distribution"
    return unknown if found is None else evidence.tried(lambda: f"{found.name} {found.version}", unknown)
