"""Queues: what waits in them, what is paused, which limits hold jobs back, and what retries cost their owners."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from mulligan.console.queues import QueueStatus
from mulligan.records.key import Scope
from mulligan.records.limit import EVERY_OWNER, SpendingRecord
from mulligan.records.pause import Pause
from mulligan.web.api.terms import String
from mulligan.web.pages.page import Done, PageCall, Pages, View
from mulligan.web.pages.pauses import PauseAnyForm, TargetForm, pause, resume
from mulligan.web.pages.sentence import Piece, Sentence, clock, failed, held
from mulligan.web.pages.words import joined, listing, number, plural, verb

pages = Pages("Queues")


class QueuesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    owner: String = ""
    """Also the limit and the budget of this owner."""


def describe_queues(queues: Sequence[QueueStatus], pauses: Sequence[Pause]) -> Sentence:
    if not queues:
        return Sentence(("There is no queue yet.",), ("A queue is there as soon as a task or a job names it.",))
    return Sentence((*_ready(queues), *_standing(queues)), (_paused(pauses),))


def _ready(queues: Sequence[QueueStatus]) -> list[Piece]:
    ready = sum(queue.ready for queue in queues)
    if not ready:
        return ["No job waits for a worker."]
    oldest = min(queue.since for queue in queues if queue.since is not None)
    least = "At least " if any(queue.at_least for queue in queues) else ""
    are = f"{least}{plural(ready, 'job')} {verb(ready, 'is', 'are')} ready,"
    return [f"{are} {verb(ready, 'it waits', 'the oldest')} since ", clock(oldest), "."]


def _standing(queues: Sequence[QueueStatus]) -> list[Piece]:
    """Queues that do not go on."""
    paused = [queue.name for queue in queues if queue.paused]
    left = [queue.name for queue in queues if queue.ready and not queue.workers]
    found: list[Piece] = []
    if paused:
        found += [" ", held(f"{_named(paused)} paused"), "."]
    if left:
        found += [" ", failed(f"No worker takes from {_names(left)}"), "."]
    return found


def _named(names: Sequence[str]) -> str:
    return f"{_names(names, capital=True)} {verb(len(names), 'is', 'are')}"


def _names(names: Sequence[str], *, capital: bool = False) -> str:
    word = verb(len(names), "queue", "queues")
    return f"{word.capitalize() if capital else word} {listing(names)}"


def _paused(pauses: Sequence[Pause]) -> str:
    if not pauses:
        return "Nothing is paused."
    endless = sum(each.until is None for each in pauses)
    return joined(
        f"Paused: {listing([f'{each.what} {each.name}' for each in pauses], 5)}.",
        f"{number(endless)} of {number(len(pauses))} {verb(endless, 'has', 'have')} no end." if endless else "",
    )


class Use(NamedTuple):
    """How much of one budget is used."""

    label: str
    used: int
    most: int | None

    @property
    def tone(self) -> str:
        """Jobs of low priority wait from 80 % on."""
        if self.most is None or self.used < 0.8 * self.most:
            return "running"
        return "failed" if self.used >= self.most else "held"


def uses_of(spent: SpendingRecord) -> list[Use]:
    """The budgets that the owner has; without any bound, what it used."""
    every = [
        Use("today", spent.today, spent.budget.per_day),
        Use("this month", spent.this_month, spent.budget.per_month),
        Use("cost this month", spent.cost_this_month, spent.budget.cost_per_month),
    ]
    return [use for use in every if use.most is not None] or every[:1]


@pages.page("/queues", scope=Scope.JOBS_READ, is_admin=True)
def show_queues(call: PageCall, query: QueuesQuery) -> View:
    queues, pauses = call.console.queues(), call.console.pauses()
    budgets = call.console.budgets()
    one = call.console.spending(query.owner) if query.owner else None
    listed = [each for each in budgets if one is None or each.owner != one.owner]
    return View(
        "queues.html",
        says=describe_queues(queues, pauses),
        queues=queues,
        pauses=pauses,
        limits=call.console.limits(owner=query.owner or None),
        every_owner=call.console.default_owner_limit(),
        budgets=[(each, uses_of(each)) for each in ([one] if one else []) + listed],
        default=call.console.spending(EVERY_OWNER),
        owner=query.owner,
        owner_budget=one,
        names=sorted({queue.name for queue in queues} | {load.kind for queue in queues for load in queue.kinds}),
        may_operate=call.allows(Scope.OPERATE),
    )


@pages.action("/queues/pause", scope=Scope.OPERATE, is_admin=True)
def pause_anything(call: PageCall, form: PauseAnyForm) -> Done:
    call.request.state.target = f"{form.what} {form.name}"
    return pause(call, "/queues", form.what, form.name, form.duration, form.reason)


@pages.action("/queues/resume", scope=Scope.OPERATE, is_admin=True)
def resume_anything(call: PageCall, form: TargetForm) -> Done:
    call.request.state.target = f"{form.what} {form.name}"
    return resume(call, "/queues", form.what, form.name, form.reason)
