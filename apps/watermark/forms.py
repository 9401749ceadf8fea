"""What people type into the form of a campaign, checked."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from apps.watermark.campaigns import LONGEST_NAME, MOST_RECIPIENTS, Choice

MOST_DOWNLOADS, MOST_ATTEMPTS = 1_000_000, 20
# The bytes of as many recipients as there may be, one a line; then those of a form that encodes each byte as three.
LARGEST_FIELD = MOST_RECIPIENTS * (4 * LONGEST_NAME + 2)
LARGEST_FORM = 3 * LARGEST_FIELD + 2**16
LATEST = timedelta(days=3_650)


class Invalid(ValueError):
    """The message says what to change."""


def read_choice(fields: Mapping[str, str], *, now: datetime) -> Choice:
    choice = Choice(
        name=_name("Give the campaign a name", fields.get("name", "")),
        recipients=read_recipients(fields.get("recipients", "")),
        visible_wm="visible_wm" in fields,
        invisible_wm="invisible_wm" in fields,
        max_downloads=_number("Downloads", fields.get("max_downloads", ""), MOST_DOWNLOADS),
        max_attempts=_number("Attempts", fields.get("max_attempts", ""), MOST_ATTEMPTS),
        expires_at=_moment(fields.get("expires_at", ""), now),
    )
    if not (choice.visible_wm or choice.invisible_wm):
        raise Invalid("Choose at least one mark: visible, invisible, or both.")
    return choice


def read_recipients(text: str) -> list[str]:
    """One a line. A repeated one counts once."""
    names = dict.fromkeys(line.strip() for line in text.splitlines() if line.strip())
    if not names:
        raise Invalid("Name at least one recipient, one a line.")
    if len(names) > MOST_RECIPIENTS:
        raise Invalid(f"A campaign has at most {MOST_RECIPIENTS:,} recipients; these are {len(names):,}.")
    return [_name("A recipient", name) for name in names]


def _name(what: str, text: str) -> str:
    text = text.strip()
    if not 1 <= len(text) <= LONGEST_NAME or not text.isprintable():
        raise Invalid(f"{what}: 1 to {LONGEST_NAME} printable characters.")
    return text


def _number(what: str, text: str, most: int) -> int | None:
    if not text.strip():
        return None
    if not (text.isascii() and text.strip().isdecimal()) or len(text) > 10 or not 1 <= int(text) <= most:
        raise Invalid(f"{what}: a number from 1 to {most:,}, or nothing.")
    return int(text)


def _moment(text: str, now: datetime) -> datetime | None:
    if not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip()).replace(tzinfo=UTC)
    except ValueError:
        raise Invalid("The expiry date: a day and a time, such as 2030-01-31T12:00, or nothing.") from None
    if not now < moment < now + LATEST:
        raise Invalid("The expiry date must be in the future, within ten years.")
    return moment
