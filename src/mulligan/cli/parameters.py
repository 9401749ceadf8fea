"""Parse the values of options. A bad value is refused with what is allowed."""

import getpass
import os
from datetime import UTC, datetime, timedelta

import click

from mulligan.values.check import encodes
from mulligan.values.clock import SystemClock
from mulligan.values.duration import BadDuration, parse


def text(value: str) -> str:
    """A string that a database can store. A command line may contain any bytes."""
    if "\0" in value or not encodes(value):
        raise click.BadParameter(f"{value!r} is not a valid string")
    return value


def login() -> str:
    """The name of the current user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # In a container, the user id may have no name.
        return f"user {os.getuid()}"


def duration(value: str) -> timedelta:
    try:
        return parse(value)
    except BadDuration as error:
        raise click.BadParameter(str(error)) from None


def when(value: str) -> datetime:
    """An instant, or a duration before now."""
    try:
        return SystemClock().now() - parse(value)
    except BadDuration:
        return _instant(value)


def _instant(value: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        allowed = "a time such as '2026-01-31T12:00Z' (UTC without a zone) nor a duration such as '2h' (2h ago)"
        raise click.BadParameter(f"{value!r} is neither {allowed}") from None


def names(value: str) -> tuple[str, ...]:
    """Names separated by commas."""
    found = tuple(dict.fromkeys(name.strip() for name in text(value).split(",")))
    if not all(found):
        raise click.BadParameter(f"{value!r} has an empty name; write names as in 'default,bulk'")
    return found
