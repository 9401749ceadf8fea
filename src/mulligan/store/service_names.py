"""Computed names of services, such as the host of a job: a bounded number of names per family.

A family is the set of names that one pattern matches. When it is full, jobs with a new name share the service named
like the pattern: `site:*`. Names are checked in an enqueue before its insert, and in a settle for services that tasks
report. A name that is not computed costs no statement.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from mulligan.service.config import ServiceBook
from mulligan.service.records import Family
from mulligan.store.rows import to_duration, to_json
from mulligan.store.session import Session, Statement, Statements, Steps

# How often a name is checked for use, and how many at once.
CHECKED_EVERY = to_duration(timedelta(days=1))
CHECKED_AT_ONCE = 100


class ServiceNames:
    def __init__(self, sql: Statements, book: Callable[[], ServiceBook]) -> None:
        self._sql = sql
        self._book = book

    def assign_names(self, rows: Sequence[dict[str, Any]], now: int | None) -> Steps[None]:
        """Replace the computed names of services that have to share one."""
        computed = [row for row in rows if "is_computed" in row]
        shared = yield from self.find_shared({row["service"] for row in computed}, now)
        for row in computed:
            row["service"] = shared.get(row["service"], row["service"])

    def find_shared(self, names: Iterable[str], now: int | None) -> Steps[dict[str, str]]:
        """Return the names that do not fit, with the name that they share instead."""
        book = self._book()
        families = {name: book.of(name) for name in sorted(names) if name and book.of(name).is_pattern}
        if not families:
            return {}
        wanted = [{"family": family.name, "name": name} for name, family in families.items()]
        found = yield Statement(self._sql["names_known"], {"names": to_json(wanted)})
        known = {row["name"] for row in found}
        news, new_names = [], Counter[str]()
        for name, family in families.items():
            if name not in known:
                new_names[family.name] += 1
                rank = {"place": new_names[family.name], "most": family.most}
                news.append({"family": family.name, "name": name, **rank})
        if news:
            admitted = yield Statement(self._sql["names_admit"], {"names": to_json(news), "now": now})
            known |= {row["name"] for row in admitted}
        return {name: family.name for name, family in families.items() if name not in known}

    def forget(self, session: Session) -> None:
        """Delete a bounded number of names that are no longer used."""
        old = session.rows("names_old", {"kept": CHECKED_EVERY, "limit": CHECKED_AT_ONCE})
        if needed := [row["seq"] for row in old if row["is_needed"]]:
            session.rows("names_keep", {"names": to_json(needed)})
        if unneeded := [row["seq"] for row in old if not row["is_needed"]]:
            session.rows("names_forget", {"names": to_json(unneeded)})

    def count_names(self, session: Session) -> list[Family]:
        rows = session.rows("names_counted")
        return [Family(row["family"], row["number"], row["most"]) for row in rows]
