"""Cron expressions in words, as far as words are shorter than the expression."""

import re
from collections.abc import Sequence

from mulligan.records.cron import ALIASES
from mulligan.web.pages.words import listing

DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_SHORT_DAYS = {day[:3].lower(): str(number) for number, day in enumerate(DAYS[:7])}
_SHORT_MONTHS = {month[:3].lower(): str(number) for number, month in enumerate(MONTHS) if month}
_STEP = re.compile(r"\*/(\d+)")
_RANGE = re.compile(r"(\d+)-(\d+)")
MOST_TIMES = 6


class NoWords(Exception):
    """The expression is best read as it is."""


def describe_cron(expression: str) -> str:
    """`every 5 minutes`, `at 02:30 from Monday to Friday`; empty if there are no good words."""
    fields = ALIASES.get(expression.lower(), expression).lower().split()
    if len(fields) == 5:
        fields = ["0", *fields]
    try:
        return _describe(*fields) if len(fields) == 6 else ""
    except NoWords:
        return ""


def _describe(second: str, minute: str, hour: str, day: str, month: str, weekday: str) -> str:
    time, is_of_day = _time(second, minute, hour)
    days = " ".join(filter(None, (_days(day, weekday), _months(month))))
    return f"{time} {days}" if days else f"{time} every day" if is_of_day else time


def _time(second: str, minute: str, hour: str) -> tuple[str, bool]:
    """The words, and whether they name times of a day."""
    if second != "0":
        return _seconds(second, minute, hour), False
    if hour == "*":
        return _of_hour(minute), False
    if every := _STEP.fullmatch(hour):
        start = "" if minute == "0" else f", at minute {_number(minute)}"
        return f"every {every[1]} hours{start}", False
    if bounds := _RANGE.fullmatch(hour):
        return f"{_of_hour(minute)}, from {int(bounds[1]):02}:00 to {int(bounds[2]):02}:59", False
    if minute == "*" or _STEP.fullmatch(minute):
        return f"{_of_hour(minute)}, from {_number(hour):02}:00 to {_number(hour):02}:59", False
    return f"at {listing(_times(minute, hour), MOST_TIMES)}", True


def _seconds(second: str, minute: str, hour: str) -> str:
    if (minute, hour) != ("*", "*"):
        raise NoWords
    every = _STEP.fullmatch(second)
    return "every second" if second == "*" else f"every {every[1]} seconds" if every else f"at second {_number(second)}"


def _of_hour(minute: str) -> str:
    if minute == "*":
        return "every minute"
    if every := _STEP.fullmatch(minute):
        return f"every {every[1]} minutes"
    numbers = _numbers(minute)
    return "every hour" if numbers == [0] else f"every hour at minute {listing(numbers, MOST_TIMES)}"


def _times(minute: str, hour: str) -> list[str]:
    found = [f"{each:02}:{past:02}" for each in _numbers(hour) for past in _numbers(minute)]
    if len(found) > MOST_TIMES:
        raise NoWords
    return found


def _days(day: str, weekday: str) -> str:
    """With both fields, one of them is enough."""
    found = [_day_of_month(day), _day_of_week(weekday)]
    return " or ".join(filter(None, found))


def _day_of_month(day: str) -> str:
    if day == "*":
        return ""
    if day == "l":
        return "on the last day of the month"
    if bounds := _RANGE.fullmatch(day):
        return f"from day {bounds[1]} to {bounds[2]} of the month"
    if every := _STEP.fullmatch(day):
        return f"every {every[1]} days of the month"
    return f"on day {listing(_numbers(day), MOST_TIMES)} of the month"


def _day_of_week(weekday: str) -> str:
    if weekday == "*":
        return ""
    numbers = _replace(weekday, _SHORT_DAYS)
    if bounds := _RANGE.fullmatch(numbers):
        return f"from {_named(DAYS, bounds[1])} to {_named(DAYS, bounds[2])}"
    return f"on {listing([_named(DAYS, each) for each in numbers.split(',')], 7)}"


def _months(month: str) -> str:
    if month == "*":
        return ""
    numbers = _replace(month, _SHORT_MONTHS)
    if bounds := _RANGE.fullmatch(numbers):
        return f"from {_named(MONTHS, bounds[1])} to {_named(MONTHS, bounds[2])}"
    if every := _STEP.fullmatch(numbers):
        return f"every {every[1]} months"
    return f"in {listing([_named(MONTHS, each) for each in numbers.split(',')], 12)}"


def _replace(field: str, names: dict[str, str]) -> str:
    return re.sub(r"[a-z]{3}", lambda found: names.get(found[0], found[0]), field)


def _named(names: Sequence[str], number: str) -> str:
    return names[_number(number)]


def _numbers(field: str) -> list[int]:
    return sorted(_number(each) for each in field.split(","))


def _number(field: str) -> int:
    if not field.isdecimal():
        raise NoWords
    return int(field)
