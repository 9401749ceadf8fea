"""Cron expressions: their ticks in every zone, over every change of the clocks; what is refused, and how."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.errors import BadSchedule
from mulligan.records.cron import ALIASES, Cron, upcoming

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# 2026-11-16 is a Monday. In Berlin the clocks go from 02:00 to 03:00 on 2026-03-29 (01:00 UTC), and back from 03:00
# on 2026-10-25 (01:00 UTC).
CASES = [
    ("every five minutes", "*/5 * * * *", "UTC", "2026-11-16T12:01", ["2026-11-16T12:05", "2026-11-16T12:10"]),
    ("never at the instant itself", "5 12 * * *", "UTC", "2026-11-16T12:05", ["2026-11-17T12:05"]),
    ("with seconds", "*/20 * * * * *", "UTC", "2026-11-16T12:00:05", ["2026-11-16T12:00:20", "2026-11-16T12:00:40"]),
    ("by the clock of the place", "0 9 * * mon-fri", "Asia/Tokyo", "2026-11-20T00:00", ["2026-11-23T00:00"]),
    ("the last day of the month", "0 0 L * *", "UTC", "2026-11-16T00:00", ["2026-11-30T00:00", "2026-12-31T00:00"]),
    ("a leap day", "0 0 29 2 *", "UTC", "2026-11-16T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
    ("@hourly", "@hourly", "UTC", "2026-11-16T12:01", ["2026-11-16T13:00"]),
    ("@daily", "@daily", "Europe/Berlin", "2026-11-16T12:01", ["2026-11-16T23:00"]),
    ("@weekly", "@Weekly", "UTC", "2026-11-16T12:01", ["2026-11-22T00:00"]),
    ("@monthly", "@monthly", "UTC", "2026-11-16T12:01", ["2026-12-01T00:00"]),
    ("@yearly", " @yearly ", "UTC", "2026-11-16T12:01", ["2027-01-01T00:00"]),
    (
        "a time in the gap ticks right after it, once",
        "15,45 2 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00",
        ["2026-03-29T01:00", "2026-03-30T00:15"],
    ),
    (
        "with a time right after the gap it is one tick",
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-29T01:00",
        ["2026-03-30T00:30"],
    ),
    (
        "a repeated time ticks in the first pass only",
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00",
        ["2026-10-25T00:30", "2026-10-26T01:30"],
    ),
    (
        "asked in the second pass, the first is over",
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-25T01:10",
        ["2026-10-26T01:30"],
    ),
    (
        "an interval goes on in both passes",
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-25T00:15",
        ["2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-25T02:00"],
    ),
    (
        "every hour is every real hour",
        "0 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:00",
        ["2026-03-29T01:00", "2026-03-29T02:00"],
    ),
    ("half an hour on Lord Howe", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["2026-10-03T15:30"]),
    ("two hours at Troll", "30 2 * * *", "Antarctica/Troll", "2026-03-28T12:00", ["2026-03-29T01:00"]),
    ("at midnight in Havana", "10 0 * * *", "America/Havana", "2026-03-07T12:00", ["2026-03-08T05:00"]),
    (
        "an instant of its own: the first minute after the change",
        "0 3 * * *",
        "Europe/Berlin",
        "2026-03-29T00:59:59",
        ["2026-03-29T01:00", "2026-03-30T01:00"],
    ),
]


@pytest.mark.parametrize(
    ("expression", "place", "after", "ticks"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_ticks_of_an_expression(expression, place, after, ticks):
    found = upcoming(Cron(expression, place), utc(after), number=len(ticks))
    assert found == tuple(map(utc, ticks))
    assert {tick.tzinfo for tick in found} == {UTC}


@pytest.mark.parametrize(
    ("expression", "place", "says"),
    [
        ("* * * *", "UTC", "wrong number of fields"),
        ("61 * * * *", "UTC", "bad minute"),
        ("* 25 * * *", "UTC", "bad hour"),
        ("0 0 30 2 *", "UTC", "bad day-of-month"),
        ("0 0 29 2 mon#5/2", "UTC", "bad day-of-week"),
        ("*/0 * * * *", "UTC", "bad minute"),
        ("0 0 L/2 * *,", "UTC", "not a cron expression"),
        ("@reboot", "UTC", "possible are: @hourly, @daily"),
        ("", "UTC", "a string such as"),
        (5, "UTC", "a string such as"),
        ("* " * 200, "UTC", "a string such as"),
        ("* * * * *", "Europe/Atlantis", "'Europe/Atlantis' is not the name of a time zone"),
        ("* * * * *", "europe/berln", "did you mean 'Europe/Berlin'"),
        ("* * * * *", "../../etc/passwd", "is not the name of a time zone"),
        ("* * * * *", "", "is not the name of a time zone"),
        ("* * * * *", None, "is not the name of a time zone"),
    ],
)
def test_what_is_no_expression_or_no_zone_is_refused_with_what_is_possible(expression, place, says):
    with pytest.raises(BadSchedule, match=says):
        Cron(expression, place)


def test_a_week_may_end_with_sunday():
    found = upcoming(Cron("0 0 * * Sat-Sun"), utc("2026-11-20T12:00"), number=3)
    assert [f"{tick:%a %d}" for tick in found] == ["Sat 21", "Sun 22", "Sat 28"]


def test_every_alias_can_be_read():
    assert all(Cron(alias).next(utc("2026-11-16T00:00")) for alias in ALIASES)


@settings(deadline=None)
@given(
    st.sampled_from(["* * * * * *", "*/5 * * * *", "0 * * * *", "30 2 * * *", "0 0 1 * *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    st.floats(0, 300).map(lambda days: utc("2026-01-01T00:00") + timedelta(days=days)),
    st.integers(0, 4_000).map(lambda seconds: timedelta(seconds=seconds)),
    st.integers(1, 50),
)
def test_the_last_ticks_are_those_that_counting_finds(expression, place, after, length, most):
    cron = Cron(expression, place)
    counted = list(takewhile(lambda tick: tick <= after + length, cron.ticks(after)))
    assert cron.last(after, after + length, most=most) == counted[-most:]


def test_the_last_ticks_of_years_are_found_without_counting_them_all():
    (last,) = Cron("* * * * * *").last(utc("1990-01-01T00:00"), utc("2026-11-16T12:00"), most=1)
    assert last == utc("2026-11-16T12:00")


# Every change of clocks, against a search minute by minute that knows nothing of offsets.
ZONES = """
    Africa/Cairo Africa/Casablanca Africa/El_Aaiun America/Adak America/Anchorage America/Asuncion America/Chicago
    America/Denver America/Halifax America/Havana America/Los_Angeles America/Miquelon America/New_York America/Nuuk
    America/Santiago America/Scoresbysund America/St_Johns Antarctica/Macquarie Antarctica/Troll Asia/Amman
    Asia/Beirut Asia/Famagusta Asia/Gaza Asia/Hebron Asia/Jerusalem Asia/Nicosia Asia/Tehran Atlantic/Azores
    Australia/Adelaide Australia/Lord_Howe Australia/Sydney Europe/Berlin Europe/Chisinau Europe/Dublin Europe/Lisbon
    Europe/London Pacific/Auckland Pacific/Chatham Pacific/Easter Pacific/Norfolk
"""
EVERYTHING = "MULLIGAN_ALL_ZONES" in os.environ
CHANGES_PER_ZONE = 1_000 if EVERYTHING else 2
BEFORE, SEARCHED = 8 * 60, 40 * 60
EXPRESSIONS = """
    * * * * *|*/5 * * * *|*/7 * * * *|7 * * * *|0 */2 * * *|0 */3 * * *|*/20 2 * * *|*/15 1-3 * * *|30 * * * 0
    0 0 * * *|30 0 * * *|0 1 * * *|30 1 * * *|0 2 * * *|15 2 * * *|30 2 * * *|15,45 2,3 * * *|0 3 * * 0|59 23 * * *
    10 0-23 * * 5-6
"""
LISTED = [each.strip() for line in EXPRESSIONS.strip().splitlines() for each in line.split("|")]
BOUNDS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]


def changes(zone: ZoneInfo) -> list[datetime]:
    days = [utc("2020-01-01T00:00") + day * DAY for day in range(18 * 365)]
    offsets = [day.astimezone(zone).utcoffset() for day in days]
    return [day for day, (before, after) in zip(days, pairwise(offsets), strict=False) if before != after]


def numbers(field: str, low: int, high: int) -> set[int]:
    if "," in field:
        return {number for part in field.split(",") for number in numbers(part, low, high)}
    span, _, step = field.partition("/")
    first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
    return set(range(int(first), int(last or first) + 1, int(step or 1)))


def matcher(expression: str):
    minutes, hours, days, months, weekdays = (
        numbers(field, *bounds) for field, bounds in zip(expression.split(), BOUNDS, strict=True)
    )
    return lambda wall: (
        wall.minute in minutes
        and wall.hour in hours
        and wall.day in days
        and wall.month in months
        and (wall.weekday() + 1) % 7 in weekdays
    )


def searched(expression: str, first: datetime, walls: list[datetime]) -> Iterator[datetime]:
    """Shown: the minutes whose wall matches. Named: for each time, when it is shown first, or is over."""
    matches = matcher(expression)
    if any(field.startswith("*") for field in expression.split()[:2]):
        yield from (first + minute * MINUTE for minute, wall in enumerate(walls) if matches(wall))
        return
    latest = walls[0] - MINUTE
    for minute, wall in enumerate(walls):
        named = [latest + number * MINUTE for number in range(1, (wall - latest) // MINUTE + 1)]
        if any(map(matches, named)):
            yield first + minute * MINUTE
        latest = max(latest, wall)


@pytest.mark.parametrize("name", sorted(available_timezones()) if EVERYTHING else ZONES.split())
def test_ticks_agree_with_a_search_minute_by_minute(name):
    zone = ZoneInfo(name)
    found = changes(zone)
    assert found or EVERYTHING, f"{name} has no change of clocks any more: choose another zone"
    for day in found[:: max(1, len(found) // CHANGES_PER_ZONE)][:CHANGES_PER_ZONE]:
        first = day - BEFORE * MINUTE
        walls = [(first + minute * MINUTE).astimezone(zone).replace(tzinfo=None) for minute in range(SEARCHED)]
        for expression in LISTED:
            ticks = list(searched(expression, first, walls))
            assert list(islice(Cron(expression, name).ticks(first - MINUTE / 2), len(ticks))) == ticks, expression


@pytest.mark.parametrize("name", ["Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "America/Havana"])
@pytest.mark.parametrize("expression", LISTED)
def test_wherever_one_begins_the_ticks_are_the_same(name, expression):
    cron = Cron(expression, name)
    for day in changes(ZoneInfo(name))[:2]:
        ticks = list(takewhile(lambda tick: tick < day + DAY, cron.ticks(day - DAY / 4)))  # noqa: B023
        for start in (day - DAY / 4 + number * 7 * MINUTE for number in range(200)):
            later = next((tick for tick in ticks if tick > start), None)
            assert later is None or cron.next(start) == later, start
