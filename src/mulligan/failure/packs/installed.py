"""Rule packs: those of installed distributions (entry points `mulligan.packs`), then the built-in ones."""

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from mulligan.failure import evidence
from mulligan.failure.packs import BUILT_IN
from mulligan.failure.redact import first_line
from mulligan.failure.rule import AnyRule, check_rules

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger("mulligan.packs")

GROUP = "mulligan.packs"


@dataclass(frozen=True, slots=True)
class Pack:
    """Rules under a name. A pack that cannot be loaded has no rules but a `problem`."""

    name: str
    source: str
    rules: tuple[AnyRule, ...] = ()
    problem: str | None = None


@cache
def packs() -> tuple[Pack, ...]:
    """All packs in the order in which they are asked: installed ones by name, then built-in ones. Searched once."""
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    ours = (Pack(name, "mulligan", rules) for name, rules in BUILT_IN.items())
    return (*map(_load, found), *ours)


def _load(entry: "EntryPoint") -> Pack:
    source = _source(entry)
    try:
        return Pack(entry.name, source, check_rules(entry.load(), f"a pack ({entry.value})"))
    except (Exception, SystemExit) as error:
        # A broken pack loses its rules; it must not stop the worker.
        problem = first_line(f"{evidence.type_name(type(error))}: {evidence.message_of(error)}")
        logger.warning("the rule pack %r of %s is left out: %s", entry.name, source, problem)
        return Pack(entry.name, source, problem=problem)


def _source(entry: "EntryPoint") -> str:
    """The distribution and its version. The metadata may be damaged."""
    found = entry.dist
    unknown = "an unknown distribution"
    return unknown if found is None else evidence.try_or(lambda: f"{found.name} {found.version}", unknown)
