"""A policy for people: its delays in words and as a line, its values with their sources."""

from collections.abc import Sequence
from datetime import timedelta
from math import sqrt
from typing import NamedTuple

from mulligan.console.policies import PolicyStatus
from mulligan.failure.policy import Row
from mulligan.web.pages.words import NOTHING, duration, listing, number

SHOWN_DELAYS = 4
# The line of attempts: its size, its margins, and the least distance of two labels.
WIDTH, EDGE, APART = 720, 12, 54


def describe_schedule(rows: Sequence[Row]) -> str:
    """`Retried after 15 s, 30 s and 1 min; the last failure is about 1 min 45 s after the first.`"""
    delays = [row.delay for row in rows if row.delay is not None]
    if not delays:
        return "Never retried."
    after = listing([duration(delay) for delay in delays], SHOWN_DELAYS)
    return f"Retried after {after}; in all about {duration(rows[-1].elapsed)}."


class Point(NamedTuple):
    """An attempt on the line. `label` is empty where it would cover another."""

    x: int
    number: int
    label: str
    title: str
    is_last: bool


def draw_schedule(rows: Sequence[Row]) -> list[Point]:
    """The attempts of a job that keeps failing, by the time since the first. Square roots, so that short delays are
    not lost beside long ones."""
    whole = rows[-1].elapsed.total_seconds() if rows else 0.0
    moments = [timedelta(0), *(row.elapsed for row in rows[:-1])]
    last, points = -APART, []
    for attempt, moment in enumerate(moments, start=1):
        part = sqrt(moment.total_seconds() / whole) if whole else 0.0
        x = round(EDGE + part * (WIDTH - 2 * EDGE))
        text = duration(moment) if moment else "0"
        label = text if x - last >= APART else ""
        last = x if label else last
        points.append(Point(x, attempt, label, f"attempt {attempt}, after {text}", attempt == len(moments)))
    return points


class Value(NamedTuple):
    """A value of a policy. `source` is the section of the policies file that set it; empty: the code."""

    name: str
    text: str
    source: str


def list_values(policy: PolicyStatus) -> list[Value]:
    texts = {
        "max_attempts": ("attempts at most", number(policy.max_attempts)),
        "backoff": ("wait between attempts", policy.backoff),
        "timeout": ("an attempt may take", duration(policy.timeout)),
        "deadline": ("to be done within", "any time" if policy.deadline is None else duration(policy.deadline)),
        "limits": ("retries by code", _limits(policy)),
        "windows": ("retries run", "; ".join(policy.windows) or "at any time"),
        "max_crashes": (
            "fails after",
            "1 crash" if policy.max_crashes == 1 else f"{number(policy.max_crashes)} crashes in a row",
        ),
        "max_snoozes": ("snoozed at most", f"{number(policy.max_snoozes)} times"),
        "longest_hint": ("waits for a service at most", duration(policy.longest_hint)),
    }
    return [Value(name, text, policy.sources.get(key, "")) for key, (name, text) in texts.items()]


def _limits(policy: PolicyStatus) -> str:
    found = [f"{code} {_times(most)}" for code, most in policy.limits.items()]
    return ", ".join(found) or NOTHING


def _times(most: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(most, f"{most} times")
