"""Totals: the series of metrics, added up from the log. They only grow, in the transaction that moves the position."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from mulligan.records.folded import Folded
from mulligan.records.metric import BREAKER_SECONDS, BY_NAME, BreakerChange, TotalKey
from mulligan.records.statistics import Tally, add_tally, new_tally
from mulligan.store.rows import Record, to_json, to_time
from mulligan.store.session import Rows, Session

_histogram = msgspec.json.Decoder(list[int]).decode
_labels = msgspec.json.Decoder(tuple[str, ...]).decode
# How often the time of an open breaker is counted while it stays open, in microseconds.
COUNTED_EVERY = 10_000_000


class OpenBreaker(NamedTuple):
    since: int
    counted_until: int


class TotalOperations:
    def apply(self, session: Session, folded: Folded, *, is_pruned: bool) -> None:
        """Add what a page says. `is_pruned`: events before it were deleted, perhaps those that closed a breaker."""
        opened = self._follow_breakers(session, folded.breakers, folded.reached_at, is_pruned=is_pruned)
        self._add(session, folded.totals | opened)

    def _add(self, session: Session, added: Mapping[TotalKey, Tally]) -> None:
        if not added:
            return
        known = self._known(session, added)
        changed: dict[TotalKey, Tally] = {}
        for key, own in self._admit(session, added, known).items():
            tally = known.setdefault(own, new_tally())
            add_tally(tally, added[key])
            changed[own] = tally
        session.rows("totals_write", rows=to_json([_values(key, tally) for key, tally in changed.items()]))

    def _known(self, session: Session, keys: Iterable[TotalKey]) -> dict[TotalKey, Tally]:
        """The stored totals of these series, and of those that count what finds no room."""
        wanted = dict.fromkeys(each for key in keys for each in (key, _other(key)))
        rows = session.rows("totals_known", keys=to_json([_key_values(key) for key in wanted]))
        return {_key(row): _tally(row) for row in rows}

    def _admit(
        self, session: Session, keys: Iterable[TotalKey], known: Mapping[TotalKey, object]
    ) -> dict[TotalKey, TotalKey]:
        """Where each key is counted: in its own series, or in that of the rest if the metric is full."""
        names = {key.name for key in keys if key not in known}
        numbers: dict[str, int] = {}
        if names:
            rows = session.rows("totals_counted", names=to_json(sorted(names)))
            numbers = {row["name"]: row["number"] for row in rows}
        found = {}
        for key in keys:
            number = numbers.get(key.name, 0)
            if key in known or number < BY_NAME[key.name].most:
                numbers[key.name] = number + (key not in known)
                found[key] = key
            else:
                found[key] = _other(key)
        return found

    # Breakers

    def _follow_breakers(
        self, session: Session, changes: Sequence[BreakerChange], reached_at: int, *, is_pruned: bool
    ) -> dict[TotalKey, Tally]:
        """Store which breakers are open. Return the seconds that they were."""
        before = {row["service"]: OpenBreaker(row["since"], row["counted_until"]) for row in session.rows("breakers")}
        added: dict[TotalKey, Tally] = {}
        after = {} if is_pruned else dict(before)
        for change in changes:
            if change.is_open:
                after.setdefault(change.service, OpenBreaker(change.at, change.at))
            elif was := after.pop(change.service, None):
                _add_seconds(added, change.service, was, change.at)
        for service, breaker in after.items():
            if reached_at - breaker.counted_until >= COUNTED_EVERY:
                _add_seconds(added, service, breaker, reached_at)
                after[service] = OpenBreaker(breaker.since, reached_at)
        self._write_breakers(session, before, after)
        return added

    def _write_breakers(
        self, session: Session, before: Mapping[str, OpenBreaker], after: Mapping[str, OpenBreaker]
    ) -> None:
        if closed := sorted(before.keys() - after.keys()):
            session.rows("breakers_forget", services=to_json(closed))
        changed = [
            {"service": name, **breaker._asdict()} for name, breaker in after.items() if before.get(name) != breaker
        ]
        if changed:
            session.rows("breakers_write", rows=to_json(changed))

    # Reading

    def read(self, session: Session) -> dict[TotalKey, Tally]:
        return _to_totals(session.rows("totals"))

    def open_breakers(self, session: Session, limit: int) -> list[str]:
        """The services whose breaker is open, the longest first."""
        return [row["service"] for row in session.rows("breakers_listed", limit=limit)]

    def has_old(self, session: Session, before: datetime) -> bool:
        old = _to_totals(session.rows("totals_old", before=to_time(before)))
        return any(key != _other(key) for key in old)

    def prune(self, session: Session, before: datetime) -> int:
        """Add series that have not changed since to that of the rest, so that sums stay. Return how many."""
        session.rows("projection_lock")
        old = _to_totals(session.rows("totals_old", before=to_time(before)))
        moved = {key: tally for key, tally in old.items() if key != _other(key)}
        rest: dict[TotalKey, Tally] = {}
        for key, tally in moved.items():
            add_tally(rest.setdefault(_other(key), new_tally()), tally)
            session.rows("totals_forget", _key_values(key))
        self._add(session, rest)
        return len(moved)


def _add_seconds(added: dict[TotalKey, Tally], service: str, breaker: OpenBreaker, until: int) -> None:
    tally = added.setdefault(TotalKey(BREAKER_SECONDS.name, (service,)), new_tally())
    # The clock may have been set back.
    tally.seconds += max(until - breaker.counted_until, 0) / 1e6


def _to_totals(rows: Rows) -> dict[TotalKey, Tally]:
    """Without metrics of another version."""
    found = {_key(row): _tally(row) for row in rows if row["name"] in BY_NAME}
    return {key: tally for key, tally in found.items() if len(key.labels) == len(BY_NAME[key.name].labels)}


def _other(key: TotalKey) -> TotalKey:
    return TotalKey(key.name, BY_NAME[key.name].other(key.labels))


def _key(row: Mapping[str, Any]) -> TotalKey:
    return TotalKey(row["name"], _labels(row["labels"]))


def _key_values(key: TotalKey) -> Record:
    return {"name": key.name, "labels": to_json(key.labels)}


def _tally(row: Mapping[str, Any]) -> Tally:
    return Tally(row["number"], row["seconds"], 0, _histogram(row["histogram"]))


def _values(key: TotalKey, tally: Tally) -> Record:
    return _key_values(key) | {
        "number": tally.number,
        "seconds": round(tally.seconds, 6),
        "histogram": to_json(tally.histogram),
    }
