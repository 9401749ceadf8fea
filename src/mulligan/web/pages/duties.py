"""Duties: the periodic work of the engine itself, when it last ran and when it runs next."""

from collections.abc import Sequence
from typing import Any

from mulligan.console.duties import DutyStatus
from mulligan.records.duty import DutyRun
from mulligan.records.key import Scope
from mulligan.web.pages.page import Done, PageCall, Pages, View, WithReason
from mulligan.web.pages.pauses import PauseForm, pause, resume
from mulligan.web.pages.sentence import Sentence, failed, held
from mulligan.web.pages.words import duration, listing, plural, verb

pages = Pages("Duties")

# What a run did, where it moved no jobs.
DID = {
    "prune": ("job", "deleted"),
    "project": ("event", "counted"),
    "notify": ("event", "read"),
    "schedule": ("job", "enqueued"),
    "probe": ("probe", "enqueued"),
    "digest": ("digest", "closed"),
    "alert": ("alert", "changed"),
}


def describe_duties(duties: Sequence[DutyStatus]) -> Sentence:
    paused = [duty.name for duty in duties if duty.paused]
    if not any(duty.workers for duty in duties):
        start = "Due retries, schedules and lost jobs wait until a worker is started, or a duty is run from here."
        return Sentence((failed("No worker runs the duties"), "."), (start,))
    if not paused:
        return Sentence((f"All {len(duties)} duties run.",), ("Every worker does them; one at a time is enough.",))
    are = f"{verb(len(paused), 'Duty', 'Duties')} {listing(paused, 5)} {verb(len(paused), 'is', 'are')} paused"
    return Sentence((held(are), "."), (f"{len(duties) - len(paused)} of {len(duties)} run.",))


def describe_run(run: DutyRun) -> str:
    """`7 jobs moved in 12 ms`; nothing, if there was nothing to do."""
    noun, did = DID.get(run.duty, ("job", "moved"))
    return f"{plural(run.did, noun)} {did} in {duration(run.seconds)}" if run.did else "nothing to do"


@pages.page("/duties", scope=Scope.JOBS_READ, is_admin=True)
def show_duties(call: PageCall) -> View:
    duties = call.console.duties()
    workers: dict[str, Any] = {worker.incarnation: worker for worker in call.console.workers()}
    return View(
        "duties.html",
        says=describe_duties(duties),
        duties=[(duty, describe_run(duty.last) if duty.last else "") for duty in duties],
        workers=workers,
        may_operate=call.allows(Scope.OPERATE),
    )


@pages.action("/duties/{name}/run", scope=Scope.OPERATE, is_admin=True)
def run_duty(call: PageCall, name: str, form: WithReason) -> Done:
    done = call.console.run_duty(name, reason=form.reason, request_id=call.request_id)
    return Done("/duties", f"Duty {done.duty} ran here: {describe_run(done)}.")


@pages.action("/duties/{name}/pause", scope=Scope.OPERATE, is_admin=True)
def pause_duty(call: PageCall, name: str, form: PauseForm) -> Done:
    return pause(call, "/duties", "duty", name, form.duration, form.reason)


@pages.action("/duties/{name}/resume", scope=Scope.OPERATE, is_admin=True)
def resume_duty(call: PageCall, name: str, form: WithReason) -> Done:
    return resume(call, "/duties", "duty", name, form.reason)
