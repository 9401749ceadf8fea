"""Times, durations and numbers as people read them. The filters of the templates."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup, escape

NOTHING = "\N{EN DASH}"

MINUTE, HOUR, DAY = 60, 3_600, 86_400
THOUSAND, MILLION = 10_000, 1_000_000


def duration(given: timedelta | float | None) -> str:
    """A length of time with its two largest units: `1 min 30 s`, `2 h 5 min`, `3 d 4 h`, `0.25 s`."""
    if given is None:
        return NOTHING
    seconds = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for size, unit, below, smaller in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", 1, "s")):
        if whole >= size:
            count, rest = divmod(whole, size)
            return f"{count} {unit} {rest // below} {smaller}" if rest // below else f"{count} {unit}"
    return f"{whole} s"


def short_duration(given: timedelta | float) -> str:
    """A length of time with its largest unit only: `3 min`."""
    return " ".join(duration(given).split(" ")[:2])


def ago(moment: datetime, now: datetime) -> str:
    """`in 5 min`, `now` or `3 h ago`."""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    # Whole seconds, as the script goes on.
    size = short_duration(int(abs(seconds)))
    return f"{size} ago" if seconds > 0 else f"in {size}"


def exact(moment: datetime) -> str:
    """`16 Nov 2026, 14:05:34 UTC`"""
    return f"{moment.astimezone(UTC):%-d %b %Y, %H:%M:%S} UTC"


def clock_time(moment: datetime, now: datetime | None = None) -> str:
    """`14:05:34`, with the day if it is another one."""
    found = moment.astimezone(UTC)
    if now is not None and abs(now - moment) > timedelta(hours=20) and found.date() != now.astimezone(UTC).date():
        return f"{found:%-d %b %H:%M}"
    return f"{found:%H:%M:%S}"


def minute_time(moment: datetime, now: datetime) -> str:
    """`14:05`, with the day if it is another one: for sentences."""
    found = moment.astimezone(UTC)
    if found.date() != now.astimezone(UTC).date() and abs(now - moment) > timedelta(hours=12):
        return f"{found:%H:%M} on {found:%-d %b}"
    return f"{found:%H:%M}"


def time_tag(moment: datetime | None, text: str) -> Markup:
    """An element with the exact time on hover. A script keeps relative times up to date."""
    if moment is None:
        return escape(NOTHING)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", exact(moment), text
    )


def countdown_tag(moment: datetime, now: datetime) -> Markup:
    """How long it is until then. A script counts down."""
    seconds = int((moment - now).total_seconds())
    left = duration(seconds) if seconds >= 1 else "a moment"
    return Markup('<time class="countdown" datetime="{}" title="{}">{}</time>').format(
        f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", exact(moment), left
    )


def number(given: float | None) -> str:
    """Exact below 10,000, then `12.3 k` and `1.2 M`."""
    if given is None:
        return NOTHING
    if given < THOUSAND:
        return f"{given:,.0f}"
    if given < MILLION:
        return f"{given / 1_000:.1f} k".replace(".0 k", " k")
    return f"{given / MILLION:.1f} M".replace(".0 M", " M")


def plural(count: float, one: str, many: str = "") -> str:
    """`1 job`, `1,204 jobs`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def verb(count: float, one: str, many: str) -> str:
    """The verb of a number of things: `1 worker runs`, `2 workers run`."""
    return one if count == 1 else many


def joined(*sentences: str) -> str:
    """Those that say something, as one text."""
    return " ".join(filter(None, sentences))


def percent(part: float | None) -> str:
    return NOTHING if part is None else f"{part * 100:.0f} %"


def short_id(given: str) -> str:
    """The random end of an id: ids of one moment begin alike."""
    return given[-6:]


def listing(items: Sequence[Any], most: int = 3) -> str:
    """`a, b, c and 4 more`"""
    shown = [str(item) for item in items[:most]]
    rest = len(items) - len(shown)
    if rest:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1] if shown else ""]))


def pretty(value: Any) -> str:
    """JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
