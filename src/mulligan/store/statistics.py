"""Statistics: add what a page of the log says to minutes, hours and days; read and delete them."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mulligan.records.statistics import (
    MINUTE,
    SPANS,
    FailurePoint,
    Key,
    RecentCount,
    Statistic,
    Tally,
    add_tally,
    admit,
    in_span,
    new_tally,
)
from mulligan.store.groups import Replay
from mulligan.store.rows import from_time, to_duration, to_json, to_record, to_time
from mulligan.store.session import Rows, Session

_histogram = msgspec.json.Decoder(list[int]).decode
FILTERED = ("kind", "owner", "service", "outcome", "code")


class StatisticOperations:
    def apply(self, session: Session, minutes: Mapping[Key, Tally], replay: Replay) -> None:
        """Add the tallies of minutes to their rows, and to those of their hours and days."""
        added = self._roll_up(minutes, replay.since if replay.is_on else 0)
        if not added:
            return
        spans = {(key.span, key.at) for key in added}
        found = session.rows("statistics_known", spans=to_json([{"span": span, "at": at} for span, at in spans]))
        known = {_key(row): _tally(row) for row in found}
        changed: dict[Key, Tally] = {}
        for key, own in admit(added, known).items():
            tally = known.setdefault(own, new_tally())
            add_tally(tally, added[key])
            changed[own] = tally
        session.rows("statistics_write", rows=to_json([_values(key, tally) for key, tally in changed.items()]))

    def _roll_up(self, minutes: Mapping[Key, Tally], since: int) -> dict[Key, Tally]:
        added: dict[Key, Tally] = {}
        for key, tally in minutes.items():
            for span in SPANS.values():
                whole = in_span(key, span)
                if whole.at >= since:
                    add_tally(added.setdefault(whole, new_tally()), tally)
        return added

    def read(
        self, session: Session, span: int, since: datetime, until: datetime, wanted: Mapping[str, Any], limit: int
    ) -> list[Statistic]:
        """Return the newest rows first."""
        given = {name: wanted[name] for name in FILTERED if wanted.get(name) is not None}
        conditions = ["true", *(f"{name} = :{name}" for name in given)]
        values = {**given, "span": span, "since": to_time(since), "until": to_time(until), "limit": limit}
        return to_statistics(session.filtered("statistics_read", conditions, values))

    def recent(self, session: Session, recent: datetime, since: datetime) -> list[RecentCount]:
        """Count outcomes of minutes by kind, code and whether they were retries, from `recent` on and before it."""
        rows = session.rows("statistics_recent", span=MINUTE, recent=to_time(recent), since=to_time(since))
        return [
            to_record(RecentCount, row, is_retry=bool(row["is_retry"]), is_recent=bool(row["is_recent"]))
            for row in rows
        ]

    def failures(
        self, session: Session, step: timedelta, since: datetime, until: datetime, wanted: Mapping[str, Any]
    ) -> list[FailurePoint]:
        """Return what failed and what recovered in each step, oldest first."""
        span = max(length for length in SPANS.values() if step % timedelta(seconds=length) == timedelta(0))
        given = {name: value for name, value in wanted.items() if value is not None}
        conditions = ["true", *(f"{name} = :{name}" for name in given)]
        values = {"span": span, "step": to_duration(step), "since": to_time(since), "until": to_time(until)}
        points: dict[int, dict[str, int]] = {}
        for row in session.filtered("statistics_failures", conditions, {**given, **values}):
            points.setdefault(row["at"], {})[row["outcome"]] = row["number"]
        return [FailurePoint(from_time(at), **numbers) for at, numbers in points.items()]

    def prune(self, session: Session, span: int, before: datetime, limit: int) -> int:
        """Delete at most `limit` minutes, hours or days. Return how many."""
        for number in range(limit):
            (oldest,) = session.rows("statistics_old", span=span)
            if oldest["at"] is None or oldest["at"] >= to_time(before):
                return number
            session.rows("statistics_forget", span=span, at=oldest["at"])
        return limit


def _key(row: Mapping[str, Any]) -> Key:
    return Key(**{name: row[name] for name in Key._fields} | {"is_other": bool(row["is_other"])})


def _tally(row: Mapping[str, Any]) -> Tally:
    return Tally(row["number"], row["seconds"], row["cost"], _histogram(row["histogram"]))


def _values(key: Key, tally: Tally) -> dict[str, Any]:
    counts = {"number": tally.number, "seconds": round(tally.seconds, 6), "cost": tally.cost}
    return {**key._asdict(), **counts, "histogram": to_json(tally.histogram)}


def to_statistics(rows: Rows | Iterable[dict[str, Any]]) -> list[Statistic]:
    plain = ("kind", "owner", "service", "outcome", "code", "attempt", "number", "seconds", "cost")
    return [
        Statistic(
            at=from_time(row["at"]),
            is_other=bool(row["is_other"]),
            histogram=tuple(_histogram(row["histogram"])),
            **{name: row[name] for name in plain},
        )
        for row in rows
    ]
