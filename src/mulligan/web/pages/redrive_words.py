"""Redrives and bulk operations in words."""

from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import NamedTuple

from mulligan.lifecycle import State
from mulligan.records.job import describe_filter
from mulligan.records.redrive import CANCEL, FORGET, RETRY, RUN_NOW, SNOOZE, Redrive, RedriveState
from mulligan.web.pages.failure_words import Sentence
from mulligan.web.pages.words import number, percent, plural, short_duration


class Verb(NamedTuple):
    """What an operation does to a job: what it does, and what it has done."""

    does: str
    done: str


VERBS = {
    RETRY: Verb("Retry", "retried"),
    CANCEL: Verb("Cancel", "cancelled"),
    SNOOZE: Verb("Postpone", "postponed"),
    RUN_NOW: Verb("Run now", "made ready to run"),
    FORGET: Verb("Forget", "cancelled"),
}
# A state as a word, and the sign and colour that stand for it.
SHOWN = {
    RedriveState.CANARY: ("Canaries first", "running"),
    RedriveState.RUNNING: ("Goes on", "running"),
    RedriveState.DONE: ("Done", "succeeded"),
    RedriveState.STOPPED: ("Stopped itself", "failed"),
    RedriveState.CANCELLED: ("Stopped", "cancelled"),
}


def name_redrive(redrive: Redrive) -> str:
    """`Retry charge, HTTP_4XX`, or what its filter selects."""
    does = VERBS[redrive.verb].does
    if len(redrive.matches) == 1:
        (match,) = redrive.matches
        return f"{does} {match.kind}, {match.code}" if match.code else f"{does} {match.kind}"
    if redrive.verb == RETRY and redrive.filter.state is State.FAILED:
        described = describe_filter(replace(redrive.filter, state=None), redrive.owner)
        return f"{does} failed {described.removeprefix('all ')}"
    return f"{does} {describe_filter(redrive.filter, redrive.owner)}"


def say_redrive(redrive: Redrive, now: datetime) -> Sentence:
    done, matched = VERBS[redrive.verb].done, number(redrive.matched)
    match redrive.state:
        case RedriveState.CANARY:
            return _canaries(redrive)
        case RedriveState.RUNNING:
            said = f"of {plural(redrive.matched, 'job')} {'is' if redrive.matched == 1 else 'are'} {done}."
            return Sentence(number(redrive.retried), said, _going_on(redrive, now), "running")
        case RedriveState.STOPPED:
            said = f"It stopped itself after {number(redrive.retried)} of {plural(redrive.matched, 'job')}."
            return Sentence("", said, f"{sentence(redrive.because)} The others stay as they are.".strip())
        case RedriveState.CANCELLED:
            said = f"It was stopped after {number(redrive.retried)} of {plural(redrive.matched, 'job')}."
            return Sentence("", said, f"{sentence(redrive.because)} What was {done} stays {done}.".strip(), "cancelled")
    if not redrive.matched:
        return Sentence("", "No job matched.", "Nothing was changed.", "cancelled")
    skipped = redrive.matched - redrive.retried
    if skipped <= 0:
        said = f"All {matched} jobs were {done}." if redrive.matched != 1 else f"The job was {done}."
        return Sentence("", said, say_answers(redrive), "succeeded")
    said = f"of {matched} jobs were {done}, {number(skipped)} {'was' if skipped == 1 else 'were'} skipped."
    return Sentence(number(redrive.retried), said, say_answers(redrive), "succeeded")


def _canaries(redrive: Redrive) -> Sentence:
    number_of = min(redrive.canary, redrive.matched)
    waiting = max(0, redrive.matched - redrive.canary)
    needed = max(0, ceil(redrive.canary * (1 - redrive.abort_above) - 1e-9))
    said = "canary goes first." if number_of == 1 else "canaries go first."
    them = "it" if number_of == 1 else "them"
    others = f" {plural(waiting, 'job')} {'waits' if waiting == 1 else 'wait'} for {them}." if waiting else ""
    rule = f"The others follow once {number(needed)} of them {'has' if needed == 1 else 'have'} succeeded."
    if not needed or number_of == 1:
        rule = "The others follow in any case." if not needed else "The others follow once it has succeeded."
    return Sentence(number(number_of), said, f"{say_answers(redrive)}{others} {rule}".strip(), "running")


def _going_on(redrive: Redrive, now: datetime) -> str:
    left = time_left(redrive)
    rest = f"At {redrive.rate.text}, about {short_duration(left)} are left." if left >= timedelta(seconds=2) else ""
    waits = "It waits for a worker." if now - redrive.began_at > timedelta(seconds=30) and not redrive.looked_at else ""
    return " ".join(filter(None, (say_answers(redrive), rest, waits)))


def time_left(redrive: Redrive) -> timedelta:
    """In whole seconds: it is an estimate."""
    return timedelta(seconds=ceil(max(0, redrive.matched - redrive.looked_at) / redrive.rate.per_second))


def say_answers(redrive: Redrive) -> str:
    """How the next attempts of the watched jobs ended."""
    answers = redrive.succeeded + redrive.bad
    if redrive.verb != RETRY:
        return ""
    if not answers:
        return "No next attempt of them has ended yet." if redrive.retried and not redrive.state.is_over else ""
    if redrive.succeeded == answers:
        return "The answer so far is good." if answers == 1 else f"All {number(answers)} answers so far are good."
    good = f"{number(redrive.succeeded)} {'is' if redrive.succeeded == 1 else 'are'} good"
    return f"Of {plural(answers, 'answer')}, {good}."


def say_verdict(redrive: Redrive) -> str:
    """What the canaries said; empty while they run, and without canaries."""
    if not redrive.canary or redrive.verb != RETRY or redrive.state is RedriveState.CANARY:
        return ""
    if redrive.retried <= redrive.canary and redrive.state is RedriveState.STOPPED:
        return "Too few canaries succeeded. The others were not touched."
    if redrive.retried <= redrive.canary:
        return ""
    return f"Enough of the {number(redrive.canary)} canaries succeeded, so the others followed."


def say_rule(redrive: Redrive) -> str:
    """The terms that it began with."""
    matched = f"{plural(redrive.matched, 'job')} matched"
    if redrive.verb != RETRY:
        delay = f", by {short_duration(redrive.delay)}" if redrive.delay else ""
        return f"{matched}{delay}, at most {redrive.rate.text}"
    canaries = f", {plural(redrive.canary, 'canary', 'canaries')}" if redrive.canary else ", no canaries"
    return f"{matched}{canaries}, at most {redrive.rate.text}, stops above {percent(redrive.abort_above)} bad answers"


def sentence(text: str | None) -> str:
    """Begin with a capital letter and end with a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
