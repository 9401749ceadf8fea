"""Schedules: when each runs, what came of the last run, and which no code defines any more."""

from collections.abc import Sequence

from mulligan.console.schedules import ScheduleStatus
from mulligan.records.key import Scope
from mulligan.records.pause import Pause
from mulligan.web.pages.cron_words import describe_cron
from mulligan.web.pages.page import Done, PageCall, Pages, View, WithReason
from mulligan.web.pages.pauses import PauseForm, pause, resume
from mulligan.web.pages.sentence import Piece, Sentence, ago, failed, held
from mulligan.web.pages.words import joined, listing, plural, verb

pages = Pages("Schedules")

# What happens with ticks that no worker ran in time.
MISSED = {
    "once": "missed ticks run once",
    "all": "each missed tick runs",
    "skip": "missed ticks are skipped",
}


def describe_schedules(schedules: Sequence[ScheduleStatus], held_back: Pause | None) -> Sentence:
    """`held_back` is the pause of the duty that runs them all."""
    if not schedules:
        return Sentence(("There is no schedule.",), ("A schedule enqueues a job by the clock.",))
    overdue = [each.name for each in schedules if each.overdue_since and not each.is_orphaned]
    others = joined(_paused(schedules), _orphaned(schedules))
    if held_back:
        return Sentence((held("No schedule runs"), ": the duty schedule is paused."), (others,))
    if overdue:
        named = f"{verb(len(overdue), 'Schedule', 'Schedules')} {listing(overdue)} {verb(len(overdue), 'is', 'are')}"
        late = f"No worker ran {verb(len(overdue), 'its last tick', 'their last ticks')}."
        return Sentence((failed(f"{named} overdue"), "."), (joined(late, others),))
    return Sentence((f"{plural(len(schedules), 'schedule')}.", *_next(schedules)), (others,))


def _next(schedules: Sequence[ScheduleStatus]) -> list[Piece]:
    coming = sorted((each.next[0], each.name) for each in schedules if each.next)
    return [f" The next is {coming[0][1]}, ", ago(coming[0][0]), "."] if coming else [" None of them runs."]


def _paused(schedules: Sequence[ScheduleStatus]) -> str:
    paused = [each.name for each in schedules if each.paused]
    return f"Paused: {listing(paused, 5)}." if paused else ""


def _orphaned(schedules: Sequence[ScheduleStatus]) -> str:
    names = [each.name for each in schedules if each.is_orphaned]
    return f"No code defines {listing(names)} any more." if names else ""


@pages.page("/schedules", scope=Scope.JOBS_READ, is_admin=True)
def show_schedules(call: PageCall) -> View:
    schedules = call.console.schedules()
    held_back = next((each for each in call.console.pauses() if (each.what, each.name) == ("duty", "schedule")), None)
    return View(
        "schedules.html",
        says=describe_schedules(schedules, held_back),
        schedules=[(each, describe_cron(each.expression), MISSED.get(each.missed, each.missed)) for each in schedules],
        may_operate=call.allows(Scope.OPERATE),
    )


@pages.action("/schedules/{name:path}/run", scope=Scope.OPERATE, is_admin=True)
def run_schedule(call: PageCall, name: str, form: WithReason) -> Done:
    job = call.console.run_schedule(name, reason=form.reason, request_id=call.request_id)
    return Done("/schedules", f"Schedule {name} was enqueued as job {job.id}.", "Its next tick does not change.")


@pages.action("/schedules/{name:path}/pause", scope=Scope.OPERATE, is_admin=True)
def pause_schedule(call: PageCall, name: str, form: PauseForm) -> Done:
    return pause(call, "/schedules", "schedule", name, form.duration, form.reason)


@pages.action("/schedules/{name:path}/resume", scope=Scope.OPERATE, is_admin=True)
def resume_schedule(call: PageCall, name: str, form: WithReason) -> Done:
    return resume(call, "/schedules", "schedule", name, form.reason)


@pages.action("/schedules/{name:path}/remove", scope=Scope.OPERATE, is_admin=True)
def remove_schedule(call: PageCall, name: str, form: WithReason) -> Done:
    call.console.remove_schedule(name, reason=form.reason, request_id=call.request_id)
    return Done("/schedules", f"Schedule {name} was removed. Its jobs stay.")
