import os
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.errors import BadPolicy
from mulligan.failure.windows import Window, is_allowed, next_allowed, require_an_instant

MINUTE = timedelta(minutes=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


OFFICE = Window("09:00", "17:00", days="mon-fri", timezone="Europe/Berlin")
OUT_OF_OFFICE = Window("09:00", "17:00", days="mon-fri", timezone="Europe/Berlin", allow=False)
NIGHT = Window("22:00", "06:00")
DAY = Window("22:00", "06:00", allow=False)

# 2026-11-16 is a Monday; Berlin is an hour ahead of UTC then.
PLAIN = [
    ("never in office hours, asked before", OUT_OF_OFFICE, "2026-11-16T07:59", "2026-11-16T07:59"),
    ("never in office hours, asked at their start", OUT_OF_OFFICE, "2026-11-16T08:00", "2026-11-16T16:00"),
    ("never in office hours, asked at their end", OUT_OF_OFFICE, "2026-11-16T16:00", "2026-11-16T16:00"),
    ("never in office hours, asked on a Saturday", OUT_OF_OFFICE, "2026-11-21T12:00", "2026-11-21T12:00"),
    ("only in office hours, asked before", OFFICE, "2026-11-16T03:00", "2026-11-16T08:00"),
    ("only in office hours, asked inside", OFFICE, "2026-11-16T12:34:56", "2026-11-16T12:34:56"),
    ("only in office hours, asked on Friday evening", OFFICE, "2026-11-20T16:00", "2026-11-23T08:00"),
    ("only at night, asked in the evening", NIGHT, "2026-11-16T21:00", "2026-11-16T22:00"),
    ("only at night, asked after midnight", NIGHT, "2026-11-16T03:00", "2026-11-16T03:00"),
    ("only at night, asked in the morning", NIGHT, "2026-11-16T06:00", "2026-11-16T22:00"),
    ("never at night, asked after midnight", DAY, "2026-11-16T03:00", "2026-11-16T06:00"),
    ("Friday night ends on Saturday", Window("22:00", "06:00", days="fri"), "2026-11-21T05:59", "2026-11-21T05:59"),
    ("Thursday night does not", Window("22:00", "06:00", days="thu"), "2026-11-21T05:59", "2026-11-26T22:00"),
    ("the whole of Sunday", Window("00:00", "24:00", days="sun"), "2026-11-16T00:00", "2026-11-22T00:00"),
    ("twice the same time: a day", Window("08:00", "08:00", days="sun"), "2026-11-23T07:59", "2026-11-23T07:59"),
    ("over Sunday", Window("00:00", "00:00", days="sat-mon", allow=False), "2026-11-21T00:00", "2026-11-24T00:00"),
    ("times as values", Window(time(9), time(17, 30), days="mon, wed"), "2026-11-16T17:30", "2026-11-18T09:00"),
]


@pytest.mark.parametrize(("window", "asked", "allowed"), [case[1:] for case in PLAIN], ids=[case[0] for case in PLAIN])
def test_a_retry_waits_for_the_next_allowed_instant(window: Any, asked: Any, allowed: Any) -> None:
    assert next_allowed(utc(asked), [window]) == utc(allowed)


# In Berlin the clocks go from 02:00 to 03:00 on 2026-03-29 (01:00 UTC), and back from 03:00 on 2026-10-25.
CHANGES = [
    (
        "a start in the gap begins right after it",
        "02:30",
        "05:00",
        "Europe/Berlin",
        "2026-03-29T00:59",
        "2026-03-29T01:00",
    ),
    (
        "a window within the gap is left out that day",
        "02:15",
        "02:45",
        "Europe/Berlin",
        "2026-03-29T00:59",
        "2026-03-30T00:15",
    ),
    ("the first pass belongs", "02:15", "02:45", "Europe/Berlin", "2026-10-25T00:00", "2026-10-25T00:15"),
    ("the second pass belongs too", "02:15", "02:45", "Europe/Berlin", "2026-10-25T00:45", "2026-10-25T01:15"),
    ("half an hour on Lord Howe", "02:15", "04:00", "Australia/Lord_Howe", "2026-10-03T15:29", "2026-10-03T15:30"),
    ("two hours at Troll", "02:30", "04:00", "Antarctica/Troll", "2026-03-29T00:59", "2026-03-29T01:00"),
    ("at a quarter to three on Chatham", "03:00", "04:00", "Pacific/Chatham", "2026-09-26T13:59", "2026-09-26T14:00"),
]


@pytest.mark.parametrize(
    ("start", "end", "place", "asked", "allowed"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES]
)
def test_windows_are_right_when_the_clocks_change(start: Any, end: Any, place: Any, asked: Any, allowed: Any) -> None:
    assert next_allowed(utc(asked), [Window(start, end, timezone=place)]) == utc(allowed)


def test_what_is_forbidden_is_forbidden_in_both_passes_and_ends_with_the_gap() -> None:
    fold = Window("02:00", "03:00", timezone="Europe/Berlin", allow=False)
    gap = Window("01:00", "02:30", timezone="Europe/Berlin", allow=False)
    assert next_allowed(utc("2026-10-25T00:00"), [fold]) == utc("2026-10-25T02:00")
    assert next_allowed(utc("2026-03-29T00:30"), [gap]) == utc("2026-03-29T01:00")


def test_several_windows_that_allow_are_added_and_one_that_forbids_wins() -> None:
    windows = [Window("08:00", "12:00"), Window("14:00", "18:00"), Window("09:00", "15:00", allow=False)]
    found = [next_allowed(utc(f"2026-11-16T{hour:02}:00"), windows).hour for hour in (0, 8, 9, 14, 15, 17, 18)]
    assert found == [8, 8, 15, 15, 15, 17, 8]


def test_without_windows_every_instant_is_allowed() -> None:
    assert next_allowed(utc("2026-11-16T12:00"), []) == utc("2026-11-16T12:00")


def test_the_answer_is_in_utc_whatever_was_asked() -> None:
    asked = datetime(2026, 11, 16, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert next_allowed(asked, []).tzinfo is UTC


def test_places_that_agree_only_between_their_changes_of_clocks_are_found() -> None:
    # New York is four hours behind Berlin in two weeks of March, five hours behind otherwise.
    windows = [
        Window("16:00", "16:30", timezone="Europe/Berlin"),
        Window("11:30", "12:30", timezone="America/New_York"),
        Window("10:00", "11:00", timezone="America/New_York", allow=False),
        Window("16:30", "23:59", timezone="Europe/Berlin", allow=False),
    ]
    assert next_allowed(utc("2026-11-16T12:00"), windows) == utc("2027-03-14T15:00")


@pytest.mark.parametrize(
    "windows",
    [
        [Window("00:00", "24:00", allow=False)],
        [Window("00:00", "12:00", allow=False), Window("12:00", "00:00", allow=False)],
        [Window("09:00", "17:00"), Window("08:00", "18:00", allow=False)],
        [Window("09:00", "17:00", days="mon"), Window("00:00", "24:00", days="mon", allow=False)],
        [Window("09:00", "10:00", timezone="Asia/Tokyo"), Window("00:00", "02:00", allow=False)],
    ],
)
def test_windows_that_forbid_everything_are_refused(windows: Any) -> None:
    with pytest.raises(BadPolicy, match="never allow a retry"):
        require_an_instant(windows)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Window("9", "17:00"), "the start of a window is '9'"),
        (lambda: Window("24:00", "17:00"), "from '00:00' to '23:59'"),
        (lambda: Window("09:00", "25:00"), "the end of a window is '25:00'"),
        (lambda: Window("09:00", "24:01"), "the end of a window is '24:01'"),
        (lambda: Window("09:60", "17:00"), "a time such as '09:00'"),
        (lambda: Window(9, 17), "a time such as '09:00'"),  # type: ignore[arg-type]
        (lambda: Window("09:00", "17:00", days="mon-funday"), "days such as 'mon-fri'"),
        (lambda: Window("09:00", "17:00", days=""), "days such as 'mon-fri'"),
        (lambda: Window("09:00", "17:00", days="mon-"), "days such as 'mon-fri'"),
        (lambda: Window("09:00", "17:00", days=[0, 1]), "days such as 'mon-fri'"),  # type: ignore[arg-type]
        (lambda: Window("09:00", "17:00", timezone="Mars/Olympus"), "'Mars/Olympus'"),
        (lambda: Window("09:00", "17:00", timezone="../../etc/passwd"), "the name of a time zone"),
        (lambda: Window("09:00", "17:00", timezone="Europe"), "the name of a time zone"),
        (lambda: Window("09:00", "17:00", timezone="Europe/Berln"), "did you mean 'Europe/Berlin'"),
        (lambda: Window("09:00", "17:00", timezone=""), "the name of a time zone"),
        (lambda: Window("09:00", "17:00", timezone=2), "the name of a time zone"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_window_is_refused_with_what_is_allowed(make: Any, says: str) -> None:
    with pytest.raises(BadPolicy, match="must be") as caught:
        make()
    assert says in str(caught.value)


def test_people_can_read_a_window() -> None:
    window = Window("22:00", "06:00", days="fri-sun", timezone="Europe/Berlin", allow=False)
    assert window.describe() == "never fri,sat,sun 22:00–06:00 Europe/Berlin"  # noqa: RUF001
    assert Window("09:00", "17:00").describe() == "only every day 09:00–17:00 UTC"  # noqa: RUF001


CLOCKS = st.times().map(lambda clock: clock.replace(second=0, microsecond=0))
PLACES = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Chatham", "America/Havana"])
WINDOWS = st.builds(
    Window,
    CLOCKS,
    CLOCKS,
    days=st.sampled_from(["mon-sun", "mon-fri", "sat,sun"]),
    timezone=PLACES,
    allow=st.booleans(),
)
MOMENTS = st.floats(0, 18 * 365).map(lambda days: utc("2020-01-01T00:00") + timedelta(days=days))


@given(MOMENTS, st.lists(WINDOWS, min_size=1, max_size=3))
def test_the_answer_is_allowed_and_nothing_just_before_it_is(moment: Any, windows: Any) -> None:
    try:
        allowed = next_allowed(moment, windows)
    except BadPolicy:
        return
    assert allowed >= moment
    assert is_allowed(allowed, windows)
    if allowed > moment:
        assert not is_allowed(max(moment, allowed - timedelta(microseconds=1)), windows)


# Every change of clocks from 2020 to 2037, against a minute-by-minute search that knows nothing of edges.
ZONES = """
    Africa/Cairo Africa/Casablanca Africa/El_Aaiun America/Adak America/Anchorage America/Asuncion
    America/Bahia_Banderas America/Chicago America/Denver America/Halifax America/Havana America/Los_Angeles
    America/Miquelon America/New_York America/Nuuk America/Port-au-Prince America/Santiago America/Scoresbysund
    America/St_Johns Antarctica/Macquarie Antarctica/Troll Asia/Amman Asia/Beirut Asia/Famagusta Asia/Gaza
    Asia/Hebron Asia/Jerusalem Asia/Nicosia Asia/Tehran Atlantic/Azores Atlantic/Bermuda Australia/Adelaide
    Australia/Hobart Australia/Lord_Howe Australia/Sydney Europe/Berlin Europe/Chisinau Europe/Dublin
    Europe/Kyiv Europe/Lisbon Europe/London Pacific/Auckland Pacific/Chatham Pacific/Easter Pacific/Fiji
    Pacific/Norfolk
"""
EVERYTHING = "MULLIGAN_ALL_ZONES" in os.environ
CHANGES_PER_ZONE = 1_000 if EVERYTHING else 3
STARTS = [
    -180,
    -121,
    -61,
    -60,
    -59,
    -31,
    -16,
    -15,
    -1,
    0,
    1,
    14,
    15,
    29,
    30,
    31,
    45,
    59,
    60,
    61,
    90,
    119,
    120,
    121,
    180,
]
SEARCHED = 34 * 60


def changes(zone: ZoneInfo) -> list[datetime]:
    days = [utc("2020-01-01T00:00") + timedelta(days=day) for day in range(18 * 365)]
    offsets = [day.astimezone(zone).utcoffset() for day in days]
    found = [day for day, (before, after) in zip(days, pairwise(offsets), strict=False) if before != after]
    return [minute_of_change(day, zone) for day in found]


def minute_of_change(day: datetime, zone: ZoneInfo) -> datetime:
    before, after = 0, 24 * 60
    while after - before > 1:
        middle = (before + after) // 2
        same = (day + middle * MINUTE).astimezone(zone).utcoffset() == day.astimezone(zone).utcoffset()
        before, after = (middle, after) if same else (before, middle)
    return day + after * MINUTE


def clock(minutes: int) -> str:
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def cases(change: datetime, zone: ZoneInfo) -> Iterator[tuple[int, int, str]]:
    """Windows as minutes of the day, around what the clock shows before and after the change."""
    old, new = ((change + away).astimezone(zone) for away in (-MINUTE, timedelta(0)))
    before, after = old.hour * 60 + old.minute + 1, new.hour * 60 + new.minute
    yield before + 15, before + 45, "mon-sun"
    yield after - 30, after + 60, "mon-sun"
    yield before - 60, after + 15, "sat,sun"
    yield before, after, "mon-sun"
    yield 22 * 60, 6 * 60, "fri-sun"
    yield 9 * 60, 17 * 60, "mon-fri"


def inside(minute: int, weekday: int, start: int, end: int, days: set[int]) -> bool:
    if start < end:
        return start <= minute < end and weekday in days
    return (minute >= start and weekday in days) or (minute < end and (weekday - 1) % 7 in days)


DAYS = {"mon-sun": set(range(7)), "sat,sun": {5, 6}, "fri-sun": {4, 5, 6}, "mon-fri": {0, 1, 2, 3, 4}}


@pytest.mark.parametrize("name", sorted(available_timezones()) if EVERYTHING else ZONES.split())
def test_windows_agree_with_a_search_minute_by_minute(name: str) -> None:
    zone = ZoneInfo(name)
    found = changes(zone)
    assert found or EVERYTHING, f"{name} has no change of clocks any more: choose another zone"
    for change in found[:: max(1, len(found) // CHANGES_PER_ZONE)][:CHANGES_PER_ZONE]:
        first = change - 180 * MINUTE
        walls = [(first + minute * MINUTE).astimezone(zone) for minute in range(SEARCHED)]
        shown = [(wall.hour * 60 + wall.minute, wall.weekday()) for wall in walls]
        for start, end, days in cases(change, zone):
            start, end = start % 1440, end % 1440
            covered = [inside(minute, weekday, start, end, DAYS[days]) for minute, weekday in shown]
            for allow in (True, False):
                window = Window(clock(start), clock(end), days=days, timezone=name, allow=allow)
                check_against(covered, first, window)


def check_against(covered: list[bool], first: datetime, window: Window) -> None:
    expected: list[int | None] = [None]
    for minute in reversed(range(SEARCHED)):
        expected.append(minute if covered[minute] is window.allow else expected[-1])
    expected.reverse()
    for start in STARTS:
        found, answer = expected[start + 180], answer_of(first + (start + 180) * MINUTE, window)
        if found is None:
            assert answer is None or answer >= first + SEARCHED * MINUTE, window.describe()
        else:
            assert answer == first + found * MINUTE, window.describe()


def answer_of(asked: datetime, window: Window) -> datetime | None:
    try:
        return next_allowed(asked, [window])
    except BadPolicy:
        return None
