"""Pause and resume, as the forms of several pages send it."""

from typing import Any, Literal

import msgspec

from mulligan.records.pause import EVERYTHING, Pause
from mulligan.web.pages.page import Done, PageCall
from mulligan.web.pages.words import duration

What = Literal["queue", "kind", "service", "duty", "schedule", "intake"]


class PauseForm(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An empty duration is a pause until it is resumed."""

    duration: str | None = None
    reason: str | None = None


class TargetForm(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    what: What
    name: str
    reason: str | None = None


class PauseAnyForm(TargetForm, kw_only=True):
    duration: str | None = None


def pause(call: PageCall, path: str, what: str, name: str, length: str | None, reason: str | None) -> Done:
    target: dict[str, Any] = {what: name}
    made = call.console.pause(length, **target, reason=reason, request_id=call.request_id)
    until = "until it is resumed" if made.until is None else f"for {duration(made.until - made.since)}"
    return Done(path, f"{subject_of(made)} is paused {until}.", _after_pause(made))


def resume(call: PageCall, path: str, what: str, name: str, reason: str | None = None) -> Done:
    target: dict[str, Any] = {what: name}
    ended = call.console.resume(**target, reason=reason, request_id=call.request_id)
    if ended is None:
        return Done(path, f"{what.capitalize()} {name} was not paused.", tone="held")
    return Done(path, f"{subject_of(ended)} is resumed. It was paused for {duration(call.now - ended.since)}.")


def subject_of(pause: Pause) -> str:
    """`Queue bulk`, `All intake`."""
    if pause.what == "intake":
        return "All intake" if pause.name == EVERYTHING else f"The intake of {pause.name}"
    return f"{pause.what.capitalize()} {pause.name}"


def _after_pause(pause: Pause) -> str:
    match pause.what:
        case "intake":
            return "New jobs are refused. Those that are stored go on."
        case "duty":
            return "Workers skip it. It can still be run from here."
        case "schedule":
            return "It enqueues no jobs. It can still be run from here."
    return "Running jobs go on; no further job is started."
