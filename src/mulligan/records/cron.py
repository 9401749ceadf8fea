"""Cron expressions and their ticks. Pure: times in, times out, correct across every change of the clocks.

A time of day (`30 2 * * *`: neither second, minute nor hour begins with `*`) ticks once a day that it names. If the
clocks skip that time, it ticks right after the gap; if they repeat it, it ticks in the first pass. Every other
expression (`*/5 * * * *`, `0 * * * *`) ticks whenever the local clock shows a matching time: in both passes, and not in
a gap.
"""

import re
from collections.abc import Iterator
from copy import copy
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from mulligan.errors import BadSchedule
from mulligan.values.check import not_allowed
from mulligan.values.suggest import did_you_mean

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
LONGEST = 200
_SUNDAY_LAST = re.compile(r"-sun\b", re.IGNORECASE)

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
# A day in a leap year: an expression without a tick in the next 50 years has none.
_ANY_DAY: Final = datetime(2024, 1, 1)  # noqa: DTZ001 - what the clock on the wall shows has no zone
# `last` searches this far back first, then ever further by this factor.
_FIRST_LOOK, _WIDER = timedelta(minutes=1), 24


class Cron:
    """An expression of five fields, or six with seconds in front, or an alias such as `@daily`; in a time zone."""

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        self.zone = _zone(timezone)
        self.timezone = timezone
        self.expression = " ".join(expression.split()) if isinstance(expression, str) else expression
        fields = ALIASES.get(str(self.expression).lower(), self.expression)
        self._parsed = _parsed(fields, expression)
        self._found = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
        """The last answer, and from when it holds: a schedule asks for the same tick several times."""
        self._names_times = not any(field.startswith("*") for field in fields.split()[:-3])

    def next(self, after: datetime) -> datetime:
        """The first tick after this time, in UTC."""
        after = after.astimezone(UTC)
        since, tick = self._found
        if not since <= after < tick:
            tick = self._next_named(after) if self._names_times else self._next_shown(after)
            self._found = after, tick
        return tick

    def ticks(self, after: datetime) -> Iterator[datetime]:
        """All ticks after this time, in order."""
        while True:
            after = self.next(after)
            yield after

    def last(self, after: datetime, until: datetime, *, most: int) -> list[datetime]:
        """The last `most` ticks after one time and up to another, in order. The cost does not depend on how many there
        were."""
        width = _FIRST_LOOK
        while True:
            start = max(after, until - width)
            found = list(takewhile(lambda tick: tick <= until, self.ticks(start)))
            if len(found) >= most or start == after:
                return found[-most:]
            width *= _WIDER

    def _next_named(self, after: datetime) -> datetime:
        """One tick for each matching local time, whether the clocks show it never, once or twice."""
        for wall in self._walls(self._wall(after)):
            # In a gap, fold 0 gives a time after the gap and fold 1 one before it.
            first, second = (wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1))
            tick = first if self._wall(first) == wall else self._change(second, first)
            if tick > after:
                return tick
        raise AssertionError("an expression with one tick has infinitely many")

    def _next_shown(self, after: datetime) -> datetime:
        """Between two changes of the clocks, local time runs parallel to UTC."""
        while True:
            wall, offset = next(self._walls(self._wall(after))), self._offset(after)
            tick = wall.replace(tzinfo=UTC) - offset
            day = next((day for day in _days(after, tick) if self._offset(day) != offset), None)
            if day is None:
                return tick
            after = self._change(max(after, day - _DAY), day)
            if self._is_shown(after):
                return after

    def _walls(self, after: datetime) -> Iterator[datetime]:
        """The local times that match, as if the clocks were never changed."""
        # As `copy` does, in a fraction of its time.
        walls = CronSim.__new__(CronSim)
        walls.__dict__.update(self._parsed.__dict__, dt=after.replace(microsecond=0))
        return walls

    def _is_shown(self, moment: datetime) -> bool:
        wall = self._wall(moment)
        return next(self._walls(wall - _SECOND)) == wall

    def _change(self, before: datetime, after: datetime) -> datetime:
        """The first second after `before` at which the clocks have been changed."""
        before, offset = before.replace(microsecond=0), self._offset(before)
        seconds = range(1, (after - before) // _SECOND + 1)
        low, high = 0, len(seconds) - 1
        while low < high:
            middle = (low + high) // 2
            if self._offset(before + seconds[middle] * _SECOND) == offset:
                low = middle + 1
            else:
                high = middle
        return before + seconds[low] * _SECOND

    def _wall(self, moment: datetime) -> datetime:
        """The local time, without its zone."""
        return moment.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self.zone).utcoffset() or timedelta(0)


def upcoming(cron: Cron, after: datetime, *, number: int) -> tuple[datetime, ...]:
    return tuple(islice(cron.ticks(after), number))


def _parsed(fields: object, given: object) -> CronSim:
    if not isinstance(fields, str) or not 0 < len(fields) <= LONGEST:
        raise BadSchedule(not_allowed("a cron expression", given, "a string such as '*/5 * * * *'"))
    if fields.startswith("@"):
        raise BadSchedule(f"{given!r:.200} is not an alias of a cron expression; possible are: {', '.join(ALIASES)}")
    try:
        # At the end of a range, Sunday is day 7, but by name it is day 0.
        parsed = CronSim(_SUNDAY_LAST.sub("-7", fields), _ANY_DAY)
        next(copy(parsed))
    except (CronSimError, AssertionError, ValueError, OverflowError) as error:
        problem = re.sub(r"^(\w)", lambda found: found[0].lower(), str(error)) or "it cannot be read"
        raise BadSchedule(
            f"{given!r:.200} is not a cron expression: {problem}; write five fields (minute, hour, day of the month, "
            "month, day of the week) such as '30 2 * * mon-fri', or six with seconds in front"
        ) from None
    except StopIteration:
        raise BadSchedule(f"{given!r:.200} names a day that does not exist") from None
    return parsed


def _days(after: datetime, until: datetime) -> Iterator[datetime]:
    """Each day, and the end. The clocks are not changed twice in a day."""
    yield from (after + number * _DAY for number in range(1, (until - after) // _DAY + 1))
    yield until


def _zone(timezone: str) -> ZoneInfo:
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):
        raise BadSchedule(
            f"{timezone!r:.200} is not the name of a time zone; "
            f"{did_you_mean(timezone, available_timezones())}it must be one such as 'Europe/Berlin' or 'UTC'"
        ) from None
