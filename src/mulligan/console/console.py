"""All that a person can do and ask. The CLI, and later the web, come through here."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from mulligan.console.arguments import LARGEST_PAGE, checked_calls
from mulligan.console.batches import Batch, Batches, Retried
from mulligan.console.dead_letters import Letter, Letters, Purge
from mulligan.console.doctor import Doctor
from mulligan.console.duties import DutyStatus, Roster
from mulligan.console.ids import whole_id
from mulligan.console.pauses import Brakes
from mulligan.console.reclassify import Reclassification, Reclassify
from mulligan.console.redrives import Redrives
from mulligan.console.schedules import Agenda, ScheduleStatus
from mulligan.console.services import Switchboard
from mulligan.console.stuck import Stuck
from mulligan.errors import BadArgument, BatchNotFound, illegal_move
from mulligan.explain import Explanation, blocked_by, explain
from mulligan.failure.redact import bounded
from mulligan.judge import Judge
from mulligan.lifecycle import SERVICE_FORCED, TABLE, Move, State
from mulligan.records.batch import BatchRecord, BatchState
from mulligan.records.duty import RETRY_REASONS, DutyRun
from mulligan.records.event import Event
from mulligan.records.finding import Finding, Limits
from mulligan.records.job import Job, JobFilter, Page
from mulligan.records.limit import EVERY_OWNER, LimitRecord, SpendingRecord, subjects_of
from mulligan.records.pause import Pause
from mulligan.records.rate import Rate
from mulligan.records.redrive import Redrive
from mulligan.service.records import ServiceStatus
from mulligan.store.messages import Outcome, Request, WorkerRecord
from mulligan.store.store import Store
from mulligan.task.client import Client
from mulligan.task.permission import require_permission
from mulligan.task.registry import Registry
from mulligan.task.task import Task
from mulligan.values.duration import Duration, parse

logger = logging.getLogger("mulligan.console")

# Moves that make a job run again: the task's own precondition is asked first.
REVIVING = (Move.RETRY_BY_HAND, Move.RUN_NOW)


@checked_calls
class Console:
    """`owner=None` is the admin. Somebody else's job is not found, as one that does not exist."""

    def __init__(
        self,
        store: Callable[[], Store],
        tasks: Registry,
        ids: Callable[[], str],
        *,
        judge: Judge,
        stuck: Stuck,
        roster: Roster,
        agenda: Agenda,
        switchboard: Switchboard,
        queues: Callable[[], Iterable[str]],
        doctor: Doctor,
        client: Client,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._ids = ids
        self._judge = judge
        self._stuck = stuck
        self._roster = roster
        self._agenda = agenda
        self._switchboard = switchboard
        self._brakes = Brakes(store, ids, tasks, switchboard, queues)
        self._reclassify = Reclassify(store, judge)
        self._letters = Letters(store, ids)
        self._redrives = Redrives(store, ids)
        self._batches = Batches(store, ids, client, partial(require_permission, tasks))
        self._doctor = doctor

    # Ask

    def job(self, job_id: str, *, owner: str | None = None) -> Job[Any]:
        return self._judge.seen(self._store().job(job_id, owner=owner))

    def whole_id(self, what: str, part: str, *, owner: str | None = None) -> str:
        """The id of a `"job"`, `"batch"` or `"redrive"` of which at least 6 characters of the beginning or the end are
        given. Raises AmbiguousId with the candidates."""
        return whole_id(self._store(), what, part, owner=owner)

    def jobs(
        self,
        wanted: JobFilter | None = None,
        *,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Any]:
        """Newest first, at most 1,000 at a time."""
        page = self._store().jobs(wanted or JobFilter(), owner=owner, limit=limit, cursor=cursor)
        return replace(page, jobs=tuple(self._judge.seen(job) for job in page.jobs))

    def blocked_by(self, jobs: Sequence[Job[Any]]) -> dict[str, str]:
        """What keeps waiting and queued jobs from running besides their time: a service, a limit, a pause, a budget, as
        `service/gateway`, by the job's id. Asked once for all of them."""
        live = [job for job in jobs if job.state in (State.WAITING, State.QUEUED)]
        if not live:
            return {}
        pauses, holding = self._store().pauses(), self._switchboard.holding(job.service for job in live)
        found = {job.id: blocked_by(job, pauses=pauses, holding=holding) for job in live}
        return {job_id: what for job_id, what in found.items() if what is not None}

    def export(
        self, wanted: JobFilter | None = None, *, owner: str | None = None, events: bool = False
    ) -> Iterator[Letter]:
        """All that match, one after the other, the newest first; with `events`, each with its history."""
        return self._letters.export(wanted or JobFilter(), owner=owner, events=events)

    def counts(self, *, owner: str | None = None) -> dict[str, dict[str, int]]:
        """How many jobs of each kind are in each state."""
        return self._store().counts(owner=owner)

    def events(
        self, *, job: str | None = None, owner: str | None = None, after: int = 0, limit: int = 500
    ) -> list[Event]:
        return self._store().events(job=job, owner=owner, after=after, limit=limit)

    def last_position(self, *, back: int = 0) -> int:
        """Where the log ends; with `back`, the place after which at least so many events stand, if there are."""
        return self._store().last_position(back=back)

    def workers(self) -> list[WorkerRecord]:
        return self._store().workers()

    def explain(self, job_id: str, *, owner: str | None = None) -> Explanation:
        """What happened to a job, and what comes next."""
        store = self._store()
        job = self.job(job_id, owner=owner)
        return explain(
            job,
            events=self._history(job.id),
            workers=store.workers(),
            now=store.now(),
            ahead=store.ahead_of(job, limit=LARGEST_PAGE),
            is_known=job.kind in self._tasks,
            pauses=store.pauses(),
            stuck_after=self._stuck.after,
            batch=self._batch_of(job),
            service=self._switchboard.of_job(job.service),
            limits=store.limits(subjects_of(job)) if job.waiting_for == "limit" else (),
            spending=store.spending(job.owner) if job.waiting_for == "budget" else None,
        )

    def limits(self, *, owner: str | None = None) -> list[LimitRecord]:
        """The limits in force by name, and how many places of each are taken; those of an owner who has everybody's, if
        he is asked for."""
        listed = self._store().limits()
        if owner is None or any((limit.what, limit.name) == ("owner", owner) for limit in listed):
            return listed
        return listed + self._store().limits([f"owner/{owner}"])

    def limit_of_everybody(self) -> int | None:
        """How many places each owner has who is not named."""
        found = self._store().limits([f"owner/{EVERY_OWNER}"])
        return found[0].most if found else None

    def spending(self, owner: str) -> SpendingRecord | None:
        """What an owner's automatic retries took of his budget; None when he has none."""
        return self._store().spending(owner)

    def _batch_of(self, job: Job[Any]) -> BatchRecord | None:
        with suppress(BatchNotFound):
            return None if job.batch is None else self._store().batch(job.batch)
        return None

    def _history(self, job_id: str) -> Sequence[Event]:
        """All of it, unless a job was snoozed for years: then its beginning and its end."""
        pages = [self._store().events(job=job_id, limit=LARGEST_PAGE)]
        while len(pages[-1]) == LARGEST_PAGE:
            page = self._store().events(job=job_id, after=pages[-1][-1].position, limit=LARGEST_PAGE)
            pages = [*pages[:1], page]
        return [event for page in pages for event in page]

    def batch(self, batch_id: str, *, owner: str | None = None) -> Batch:
        return self._batches.batch(batch_id, owner=owner)

    def batches(
        self,
        *,
        state: BatchState | str | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Batch]:
        """Newest first, at most 1,000 at a time; `cursor` is the id of the last one seen."""
        return self._batches.batches(state=state, owner=owner, limit=limit, cursor=cursor)

    def stuck(self, *, owner: str | None = None, limit: int = 50) -> list[Job[Any]]:
        """Jobs that run longer than the stuck limit and than their own timeout, the longest first."""
        return [lease.job for lease in self._stuck.found(owner=owner, limit=limit)]

    def duties(self) -> list[DutyStatus]:
        """Every duty: when it was done last, by whom, with what result, and whether it is paused."""
        return self._roster.duties()

    def schedules(self) -> list[ScheduleStatus]:
        """Every schedule: its next ticks, its last run, whether it is paused, and whether anybody still has it."""
        return self._agenda.schedules()

    def services(self) -> list[ServiceStatus]:
        """Every service that a task names, that is configured, or of which something is stored."""
        return self._switchboard.services()

    def service(self, name: str) -> ServiceStatus:
        """How one stands; raises UnknownService."""
        return self._switchboard.service(name)

    def pauses(self) -> list[Pause]:
        """All that is held back by hand now: queues, kinds, services, duties, schedules."""
        return self._brakes.pauses()

    def redrives(self, *, owner: str | None = None, limit: int = 50) -> list[Redrive]:
        """The newest first."""
        return self._redrives.listed(owner=owner, limit=limit)

    def redrive_status(self, redrive_id: str, *, owner: str | None = None) -> Redrive:
        """How far it has come."""
        return self._redrives.found(redrive_id, owner=owner)

    def next_redrive(self) -> datetime | None:
        """When an operation has something to do next."""
        return self._redrives.next_look()

    def doctor(self, limits: Limits | None = None) -> list[Finding]:
        """What is well and what is not, each with its remedy."""
        return self._doctor.examine(limits or Limits())

    # Do

    def process_stuck(
        self,
        *,
        owner: str | None = None,
        actor: str | None = None,
        limit: int = 200,
    ) -> list[Job[Any]]:
        """Take stuck jobs from their workers, each settled as a TIMEOUT failure through its policy; those jobs."""
        ids = self._stuck.process(owner=owner, actor=bounded(actor), limit=limit)
        return [self._store().job(job_id) for job_id in ids]

    def reclassify(
        self,
        wanted: JobFilter | None = None,
        *,
        dry_run: bool = True,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        limit: int = 1_000,
    ) -> Reclassification:
        """Judge failed jobs again by today's rules and policies; unless it is a dry run, retry those that now would be.

        Each retry is one by hand, checked as such; the answer says which were skipped, and why.
        """
        found = self._reclassify.judged(wanted or JobFilter(), owner=owner, limit=limit)
        if dry_run:
            return found
        reason = reason or "reclassified"
        return found.with_retries(lambda job_id: self.retry(job_id, owner=owner, actor=actor, reason=reason))

    def redrive(
        self,
        wanted: JobFilter,
        *,
        rate: Rate | float | str = "50/s",
        canary: int = 5,
        abort_above: float = 0.5,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        """Retry all failed jobs of a filter, at a rate, as a durable operation that workers carry out.

        The first `canary` jobs go alone; when more than the share `abort_above` of them, or later of the newest ones,
        do not succeed at their next attempt, it stops itself. Dry, it only says what it would find. Asked again with
        the same `request_id`, it is the same operation. When nothing matches nothing is stored: the answer has no id.
        """
        redrive = self._redrives.planned(
            wanted,
            rate=rate,
            canary=canary,
            abort_above=abort_above,
            owner=owner,
            actor=bounded(actor),
            reason=bounded(reason),
            request_id=request_id,
        )
        return redrive if dry_run else self._redrives.begin(redrive)

    def cancel_redrive(
        self, redrive_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Redrive:
        """End an operation; what it retried stays retried. One that is over stays as it is."""
        return self._redrives.cancel(redrive_id, owner=owner, actor=bounded(actor), reason=bounded(reason))

    def create_batch(
        self,
        name: str,
        *,
        owner: str = "",
        expires_in: Duration | None = None,
        on_settled: Task[..., Any, Any] | None = None,
        success_at: float = 1.0,
        abort_above: float | None = None,
    ) -> Batch:
        """Store a draft of a batch; its members wait until it is published."""
        return self._batches.create(
            name,
            owner=owner,
            expires_in=expires_in,
            on_settled=on_settled,
            success_at=success_at,
            abort_above=abort_above,
        )

    def publish_batch(self, batch_id: str, *, owner: str | None = None, actor: str | None = None) -> Batch:
        """Count the members and let them run; one that is published already stays as it is."""
        return self._batches.publish(batch_id, owner=owner, actor=actor)

    def retry_batch(
        self,
        batch_id: str,
        *,
        cancelled: bool = False,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Retried:
        """Start all failed members again, in one step; with `cancelled` those too."""
        return self._batches.retry(batch_id, cancelled=cancelled, owner=owner, actor=actor, reason=reason)

    def cancel_batch(
        self, batch_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Batch:
        """Cancel all members that are not over; running ones are asked to stop."""
        return self._batches.cancel(batch_id, owner=owner, actor=actor, reason=reason)

    def purge(
        self,
        wanted: JobFilter,
        *,
        older_than: Duration,
        owner: str | None = None,
        dry_run: bool = True,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Purge:
        """Delete jobs that have been over for so long, with their history; dry, only count them."""
        age = parse(older_than)
        if dry_run:
            return self._letters.preview(wanted, older_than=age, owner=owner)
        return self._letters.purge(wanted, older_than=age, owner=owner, actor=bounded(actor), reason=bounded(reason))

    def run_duty(self, name: str, *, actor: str | None = None, reason: str | None = None) -> DutyRun:
        """Do a duty once in this process, paused or not."""
        return self._roster.run(name, actor=bounded(actor), reason=bounded(reason))

    def run_schedule(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Job[Any]:
        """Run a schedule's task now, paused or not; its next tick stays where it is."""
        return self._agenda.run(name, actor=bounded(actor), reason=bounded(reason))

    def remove_schedule(self, name: str, *, actor: str | None = None, reason: str | None = None) -> None:
        """Forget a schedule that is in nobody's code any more; its jobs stay."""
        self._agenda.remove(name, actor=bounded(actor), reason=bounded(reason))

    def force_service(
        self, name: str, to: str | None, *, actor: str | None = None, reason: str | None = None
    ) -> ServiceStatus:
        """Force a service `"open"` or `"closed"` in all workers, or let it go by its calls again (None)."""
        who, why = bounded(actor), bounded(reason)
        forced = self._switchboard.force(name, to, actor=who, reason=why)
        fields = {"event": SERVICE_FORCED, "service": name, "status": forced.state, "actor": who, "reason": why}
        said = "goes by its calls again" if to is None else f"is forced {to}"
        logger.info("service %s %s, asked for by %s", name, said, who or "somebody", extra=fields)
        return forced

    def pause(
        self,
        duration: Duration | None = None,
        *,
        queue: str | None = None,
        kind: str | None = None,
        service: str | None = None,
        duty: str | None = None,
        schedule: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Pause:
        """Hold the jobs of a queue, a kind or a service back in all workers, or a duty or a schedule, for so long or
        until it is resumed. What runs goes on. A duty or a schedule can be run by hand meanwhile."""
        length, who, why = None if duration is None else parse(duration), bounded(actor), bounded(reason)
        match _one_of(queue=queue, kind=kind, service=service, duty=duty, schedule=schedule):
            case "schedule", name:
                return self._agenda.pause(length, name=name, actor=who, reason=why)
            case "duty", name:
                return self._roster.pause(length, duty=name, actor=who, reason=why)
            case what, name:
                return self._brakes.pause(length, what=what, name=name, actor=who, reason=why)

    def resume(
        self,
        *,
        queue: str | None = None,
        kind: str | None = None,
        service: str | None = None,
        duty: str | None = None,
        schedule: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Pause | None:
        """End a pause; None when there was none."""
        who, why = bounded(actor), bounded(reason)
        match _one_of(queue=queue, kind=kind, service=service, duty=duty, schedule=schedule):
            case "schedule", name:
                return self._agenda.resume(name=name, actor=who, reason=why)
            case "duty", name:
                return self._roster.resume(duty=name, actor=who, reason=why)
            case what, name:
                return self._brakes.resume(what=what, name=name, actor=who, reason=why)

    def retry(
        self, job_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Job[Any]:
        """Start again: counters at zero, due now. A planned automatic retry is replaced, never doubled.

        A running job can be retried when it is stuck: its lease is taken away first.
        """
        return self._move(Move.RETRY_BY_HAND, job_id, owner, actor, reason)

    def run_now(
        self, job_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Job[Any]:
        """Run a waiting job now, or a failed or cancelled one once more; the counters stay."""
        return self._move(Move.RUN_NOW, job_id, owner, actor, reason)

    def cancel(
        self, job_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Job[Any]:
        """Cancel at once what does not run yet; a running job is asked to stop."""
        return self._move(Move.CANCEL_BY_HAND, job_id, owner, actor, reason)

    def snooze(
        self,
        job_id: str,
        delay: Duration,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Job[Any]:
        """Let a job wait for so long from now."""
        return self._move(Move.SNOOZE_BY_HAND, job_id, owner, actor, reason, parse(delay))

    def _move(
        self,
        move: Move,
        job_id: str,
        owner: str | None,
        actor: str | None,
        reason: str | None,
        delay: timedelta = timedelta(0),
    ) -> Job[Any]:
        before = self._store().job(job_id, owner=owner) if move in REVIVING else None
        first = self._check(move, before, actor) if before else None
        request = Request(
            id=self._ids(),
            move=move,
            job=job_id,
            owner=owner,
            actor=bounded(actor),
            reason=bounded(reason),
            delay=delay,
            first=first,
        )
        moved = self._judge.seen(self._store().move(request))
        _say(move, before, moved, bounded(actor), bounded(reason))
        return moved

    def _check(self, move: Move, job: Job[Any], actor: str | None) -> Outcome | None:
        """The task's own precondition, and what is to be settled first. The move looks at the state once more."""
        first = self._taken(move, job, actor)
        if first is None and (move, job.state) not in TABLE:
            raise illegal_move(job.id, job.state, move)
        require_permission(self._tasks, job)
        return first

    def _taken(self, move: Move, job: Job[Any], actor: str | None) -> Outcome | None:
        if move is not Move.RETRY_BY_HAND or job.state is not State.RUNNING:
            return None
        return self._stuck.outcome(job.id, actor=bounded(actor))


def _say(move: Move, before: Job[Any] | None, job: Job[Any], actor: str | None, reason: str | None) -> None:
    replaces = before is not None and before.state is State.WAITING and before.waiting_for in RETRY_REASONS
    instead = f", in place of the automatic retry planned for {before.due_at}" if before and replaces else ""
    fields = {"job_id": job.id, "kind": job.kind, "owner": job.owner, "attempt": job.attempt, "status": str(job.state)}
    logger.info(
        f"job %s (%s): {move} asked for by %s{instead}",
        job.id,
        job.kind,
        actor or "somebody",
        extra=fields | {"event": _event(move, job), "actor": actor, "reason": reason},
    )


def _event(move: Move, job: Job[Any]) -> str:
    """The name it has in the event log: to cancel a running job is to ask for it."""
    steps = [step for (made, _), step in TABLE.items() if made is move]
    return next((step for step in steps if step.target is job.state), steps[0]).event


def _one_of(**things: str | None) -> tuple[str, str]:
    """Which of them was named, and its name."""
    named = [(what, name) for what, name in things.items() if name is not None]
    if len(named) != 1:
        possible = f"one of {', '.join(f'{what}=' for what in things)}"
        raise BadArgument("what to pause or resume", [what for what, _ in named], possible)
    return named[0]
