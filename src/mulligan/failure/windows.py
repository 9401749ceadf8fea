"""When retries may run: times of day and days of the week, in a time zone.

A moment is in a window if the local clock shows a time in it. So when the clocks go forward, a window whose start is
skipped begins right after the gap; when they go back, both passes are inside.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from mulligan.errors import BadPolicy
from mulligan.failure.checks import bad_value, set_fields
from mulligan.values.suggest import did_you_mean

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)")

# Windows in two zones may overlap only in the weeks between their clock changes, so search a whole year.
_HORIZON = timedelta(days=400)
_ANY_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, init=False)
class Window:
    """From `start` up to `end` on the given days; past midnight if `end` is not after `start`.

    With `allow=True` retries run only inside such windows, with `allow=False` only outside. `days` are the days on
    which the window starts: `"mon-fri"`, `"sat,sun"`, `"fri-mon"`.
    """

    opens: timedelta
    closes: timedelta
    days: frozenset[int]
    zone: ZoneInfo
    allow: bool

    def __init__(
        self,
        start: str | time,
        end: str | time,
        *,
        days: str = "mon-sun",
        timezone: str | ZoneInfo = "UTC",
        allow: bool = True,
    ) -> None:
        opens, closes = _clock("start", start), _clock("end", end)
        if opens >= _DAY:
            raise bad_value("the start of a window", start, "a time from '00:00' to '23:59'")
        set_fields(
            self,
            opens=opens,
            closes=closes if closes > opens else closes + _DAY,
            days=_weekdays(days),
            zone=_zone(timezone),
            allow=allow,
        )

    def __contains__(self, moment: datetime) -> bool:
        wall = self._wall(moment)
        return any(self._covers(wall, wall.date() - back) for back in (timedelta(0), _DAY))

    def _covers(self, wall: datetime, day: date) -> bool:
        return day.weekday() in self.days and self.opens <= wall - _midnight(day) < self.closes

    def _wall(self, moment: datetime) -> datetime:
        return moment.astimezone(self.zone).replace(tzinfo=None)

    def next_edge(self, moment: datetime) -> datetime:
        """The next moment at which being inside may change: an edge of the window, or a clock change."""
        wall = self._wall(moment)
        midnights = (_midnight(wall.date() + days * _DAY) for days in (-1, 0, 1))
        edges = [midnight + edge for midnight in midnights for edge in (self.opens, self.closes)]
        following = moment + (min(edge for edge in edges if edge > wall) - wall)
        return following if self._offset(following) == self._offset(moment) else self._change(moment, following)

    def _change(self, before: datetime, after: datetime) -> datetime:
        """The first moment after `before` at which the clocks have changed."""
        offset = self._offset(before)
        while after - before > _INSTANT:
            middle = before + (after - before) / 2
            if self._offset(middle) == offset:
                before = middle
            else:
                after = middle
        return after

    def _offset(self, moment: datetime) -> timedelta | None:
        return moment.astimezone(self.zone).utcoffset()

    def describe(self) -> str:
        days = ",".join(_DAYS[day] for day in sorted(self.days)) if len(self.days) < 7 else "every day"
        times = f"{_shown(self.opens)}–{_shown(self.closes)}"  # noqa: RUF001
        return f"{'only' if self.allow else 'never'} {days} {times} {self.zone}"


def next_allowed(moment: datetime, windows: Sequence[Window]) -> datetime:
    """The first moment from `moment` on at which a retry may run, in UTC.

    Raises BadPolicy if there is none within a year.
    """
    moment = moment.astimezone(UTC)
    end = moment + _HORIZON
    while moment < end:
        if is_allowed(moment, windows):
            return moment
        moment = min(window.next_edge(moment) for window in windows)
    raise BadPolicy(f"the windows never allow a retry: {', '.join(window.describe() for window in windows)}")


def is_allowed(moment: datetime, windows: Sequence[Window]) -> bool:
    """Outside every forbidding window and, if there are allowing windows, inside one of them."""
    if any(moment in window for window in windows if not window.allow):
        return False
    allowing = [window for window in windows if window.allow]
    return not allowing or any(moment in window for window in allowing)


def require_an_instant(windows: Sequence[Window]) -> None:
    """Raise BadPolicy if the windows together never allow a retry."""
    next_allowed(_ANY_DAY, windows)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - what the clock on the wall shows has no zone


def _clock(field: str, value: str | time) -> timedelta:
    if isinstance(value, time) and value.tzinfo is None:
        return timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    shown = timedelta(hours=int(found[1]), minutes=int(found[2])) if found else None
    if shown is None or shown > _DAY:
        raise bad_value(f"the {field} of a window", value, "a time such as '09:00', from '00:00' to '24:00'")
    return shown


def _weekdays(days: str) -> frozenset[int]:
    parts = days.lower().replace(" ", "").split(",") if isinstance(days, str) else []
    found = [_span(part.split("-")) for part in parts]
    if not found or None in found:
        raise bad_value("the days of a window", days, "days such as 'mon-fri' or 'sat,sun'")
    return frozenset(day for span in found for day in span or ())


def _span(names: list[str]) -> list[int] | None:
    if len(names) > 2 or any(name not in _DAYS for name in names):
        return None
    first, last = _DAYS.index(names[0]), _DAYS.index(names[-1])
    return [(first + day) % 7 for day in range((last - first) % 7 + 1)]


def _zone(timezone: str | ZoneInfo) -> ZoneInfo:
    if isinstance(timezone, ZoneInfo):
        return timezone
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):
        near = did_you_mean(timezone, available_timezones()).strip()
        allowed = "the name of a time zone such as 'Europe/Berlin'" + (f"; {near}" if near else "")
        raise bad_value("the timezone of a window", timezone, allowed) from None


def _shown(clock: timedelta) -> str:
    minutes = clock // timedelta(minutes=1)
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"
