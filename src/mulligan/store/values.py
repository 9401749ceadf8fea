"""Records as the values a statement binds: the same for every store."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import DUTY_DONE, PURGED, REFUSED, TABLE, Move, State
from mulligan.records.batch import BatchRecord, BatchState, NewBatch
from mulligan.records.duty import DutyRun
from mulligan.records.job import Fence, Job, JobFilter, NewJob
from mulligan.records.pause import PauseRequest
from mulligan.records.retention import PurgeRequest
from mulligan.records.schedule import ScheduleNote, ScheduleRecord
from mulligan.store.fairness import step
from mulligan.store.messages import Claim, Outcome, Request, WorkerRecord
from mulligan.store.rows import Record, to_duration, to_json, to_time
from mulligan.store.settle import Settlement

MOVES = {
    Move.MANUAL_RETRY: "retry_by_hand",
    Move.RUN_NOW: "run_now",
    Move.MANUAL_CANCEL: "cancel_by_hand",
    Move.MANUAL_SNOOZE: "snooze_by_hand",
}

FORGOTTEN_AFTER = timedelta(hours=1)
# Of a worker that is gone: who did a duty last is worth knowing for a while.
ROUNDS_KEPT = timedelta(days=1)

SETTLE_EVENTS = tuple(sorted({step.event for (_, source), step in TABLE.items() if source is State.RUNNING}))


def new_values(job: NewJob, *, is_limited: bool = False) -> dict[str, Any]:
    """What it asks of its owner's share and rate, and of its service's name, is there only if it does: most do not."""
    return {
        **({} if job.weight is None else {"step": step(job.weight)}),
        **({} if job.submit_rate is None else {"rate": job.submit_rate}),
        **({"is_computed": True} if job.is_service_computed else {}),
        "rank": None,
        "id": job.id,
        "kind": job.kind,
        "owner": job.owner,
        "queue": job.queue,
        "service": job.service,
        "priority": job.priority,
        "arguments": job.arguments,
        "submitted_at": None if job.submitted_at is None else to_time(job.submitted_at),
        "delay": to_duration(job.delay),
        "deadline": None if job.deadline is None else to_duration(job.deadline),
        "max_attempts": job.max_attempts,
        "max_crashes": job.max_crashes,
        "max_snoozes": job.max_snoozes,
        "timeout": None if job.timeout is None else to_duration(job.timeout),
        "dedupe_key": job.dedupe_key,
        "dedupe_scope": job.dedupe_scope,
        "dedupe_for": None if job.dedupe_for is None else to_duration(job.dedupe_for),
        "tags": to_json(job.tags) if job.tags else "[]",
        "cost": job.cost,
        "on_failed": None if job.on_failed is None else to_json(job.on_failed),
        "batch": job.batch,
        "is_limited": is_limited,
        "data": to_json(_arrival(job)) if job.delay or job.batch else "{}",
    }


def _arrival(job: NewJob) -> dict[str, Any]:
    batch = {} if job.batch is None else {"batch": job.batch}
    return batch | {"delay": job.delay.total_seconds()} if job.delay else batch


def new_batch_values(batch: NewBatch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "name": batch.name,
        "owner": batch.owner,
        "success_at": float(batch.success_at),
        "abort_above": None if batch.abort_above is None else float(batch.abort_above),
        "expires_in": None if batch.expires_in is None else to_duration(batch.expires_in),
        "on_settled": None if batch.on_settled is None else to_json(batch.on_settled),
        "draft": BatchState.DRAFT.value,
    }


def batch_values(batch: BatchRecord, *, admits: bool = False) -> dict[str, Any]:
    times = {name: getattr(batch, name) for name in ("published_at", "settled_at", "aborted_at")}
    return {
        "id": batch.id,
        "state": batch.state.value,
        "generation": batch.generation,
        "total": batch.total,
        "admits": admits,
        **{name: None if moment is None else to_time(moment) for name, moment in times.items()},
    }


def batch_event(
    type_: str,
    batch: BatchRecord,
    *,
    now: int | None,
    request: str | None = None,
    actor: str | None = None,
    data: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """About no job. Without a request of its own there is one in each generation, however often it is tried."""
    about: dict[str, Any] = {"what": "batch", "name": batch.name, "batch": batch.id, "generation": batch.generation}
    counts = {name: getattr(batch, name) for name in ("total", "succeeded", "failed", "cancelled")}
    return event_values(
        type_,
        "",
        "",
        batch.owner,
        0,
        now=now,
        request=request or f"{type_}:{batch.id}:{batch.generation}",
        actor=actor,
        data=about | {"state": batch.state.value, **counts} | (data or {}),
    )


def settle_values(outcome: Outcome, change: Settlement) -> dict[str, Any]:
    fence, verdict = outcome.lease.fence, change.verdict if change.target is State.FAILED else None
    return {
        **fence_values(fence),
        **when_values(outcome),
        "settled_by": outcome.settled_by,
        "target": change.target.value,
        "requeues": change.requeues,
        "waiting_for": change.waiting_for,
        "is_held": change.is_held,
        "delay": None if change.delay is None else to_duration(change.delay),
        "failures": change.failures,
        "crashes": change.crashes,
        "losses": change.losses,
        "snoozes": change.snoozes,
        "clears_losses": change.clears_losses,
        "code_failures": change.code_failures,
        "max_attempts": change.max_attempts,
        "result": change.result,
        **error_values(verdict),
        **last_values(change.verdict),
    }


def when_values(outcome: Outcome) -> dict[str, Any]:
    """A reclaimer may settle only what has expired, or is stuck."""
    stuck_after = outcome.stuck_after
    return {
        "reclaimed": outcome.reclaimed_by is not None,
        "stuck_after": None if stuck_after is None else to_duration(stuck_after),
    }


def error_values(verdict: Verdict | None) -> dict[str, Any]:
    return {
        "error_code": verdict and verdict.code,
        "error_class": verdict and str(verdict.error_class),
        "error_message": verdict and verdict.message,
        "error_group": verdict and verdict.group,
    }


def last_values(verdict: Verdict | None) -> dict[str, Any]:
    """The last failure of an attempt; None leaves the one before. A task that snoozes has not failed."""
    failed = None if verdict is None or verdict.code == "SNOOZED" else verdict
    return {
        "last_code": failed and failed.code,
        "last_class": failed and str(failed.error_class),
        "last_message": failed and failed.message,
        "last_detail": failed and failed.technical_line,
    }


def fence_values(fence: Fence) -> dict[str, Any]:
    return {
        "id": fence.id,
        "attempt": fence.attempt,
        "incarnation": fence.incarnation,
        "claim": fence.claim,
    }


def worker_values(worker: WorkerRecord) -> dict[str, Any]:
    return {
        "incarnation": worker.incarnation,
        "host": worker.host,
        "pid": worker.pid,
        "queues": None if worker.queues is None else to_json(worker.queues),
        "kinds": to_json(worker.kinds),
        "concurrency": worker.concurrency,
    }


def event_values(
    type_: str,
    job: str,
    kind: str,
    owner: str,
    attempt: int,
    *,
    now: int | None,
    request: str | None = None,
    actor: str | None = None,
    code: str | None = None,
    data: dict[str, Any] | None = None,
    encoded: str | None = None,
) -> dict[str, Any]:
    return {
        "request": request,
        "type": type_,
        "job": job,
        "kind": kind,
        "owner": owner,
        "attempt": attempt,
        "now": now,
        "actor": actor,
        "code": code,
        "data": encoded or (to_json(data) if data else "{}"),
    }


def start_data(claim: Claim, trigger: str) -> str:
    data = {"worker": claim.incarnation, "trigger": trigger}
    return to_json(data if claim.version is None else data | {"version": claim.version})


def refusal_values(outcome: Outcome, change: Settlement, row: Record, *, now: int | None) -> dict[str, Any]:
    """The event of a result that came too late; made once, however often it is offered."""
    fence = outcome.lease.fence
    return event_values(
        REFUSED,
        fence.id,
        row["kind"],
        row["owner"],
        fence.attempt,
        now=now,
        request=f"refused:{fence.id}:{fence.attempt}:{outcome.settled_by}",
        code=change.code,
        data={"decision": str(change.move), "worker": fence.incarnation},
    )


def move_values(request: Request, row: Record, event: str, *, now: int | None) -> dict[str, Any]:
    """The event of a move by hand."""
    data: dict[str, Any] = {"reason": request.reason} if request.reason else {}
    if request.delay:
        data["delay"] = request.delay.total_seconds()
    if request.redrive is not None:
        data["redrive"] = request.redrive
    return event_values(
        event,
        row["id"],
        row["kind"],
        row["owner"],
        row["attempt"],
        now=now,
        request=request.id,
        actor=request.actor,
        data=data,
    )


def pause_values(request: PauseRequest) -> dict[str, Any]:
    return {
        "what": request.what,
        "name": request.name,
        "duration": None if request.duration is None else to_duration(request.duration),
        "actor": request.actor,
        "reason": request.reason,
    }


def pause_event(
    type_: str, request: PauseRequest, *, now: int | None, paused: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """About no job; `for` is missing when only a person ends it. `paused` is what is ended."""
    data: dict[str, Any] = {"what": request.what, "name": request.name}
    if paused is not None:
        data["paused"] = paused
    if request.duration is not None:
        data["for"] = request.duration.total_seconds()
    if request.reason:
        data["reason"] = request.reason
    return event_values(type_, "", "", "", 0, now=now, request=request.id, actor=request.actor, data=data)


def round_values(done: DutyRun) -> dict[str, Any]:
    return {
        "duty": done.duty,
        "worker": done.worker,
        "took": round(done.seconds * 1e6),
        "did": done.did,
        "interval": None if done.interval is None else to_duration(done.interval),
        "batch": done.limit,
        "actor": done.actor,
        "reason": done.reason,
        "ago": to_duration(done.ago),
    }


def round_event(done: DutyRun, *, now: int | None) -> dict[str, Any]:
    data = {"what": "duty", "name": done.duty, "did": done.did, "seconds": round(done.seconds, 6)}
    if done.reason:
        data["reason"] = done.reason
    return event_values(DUTY_DONE, "", "", "", 0, now=now, request=done.request, actor=done.actor, data=data)


def schedule_values(record: ScheduleRecord) -> dict[str, Any]:
    definition = record.definition
    return {
        "name": record.name,
        "kind": definition.kind,
        "expression": definition.expression,
        "timezone": definition.timezone,
        "missed": definition.missed,
        "arguments": definition.arguments,
        "next_tick": to_time(record.next_tick),
        "last_tick": None if record.last_tick is None else to_time(record.last_tick),
        "last_job": record.last_job,
        "planned_by": record.planned_by,
        "since": to_time(record.since),
        "version": record.version,
    }


def schedule_event(name: str, note: ScheduleNote, *, now: int | None) -> dict[str, Any]:
    data: dict[str, Any] = {"what": "schedule", "name": name, **note.data}
    return event_values(note.type, "", "", "", 0, now=now, request=note.request, actor=note.actor, data=data)


def purge_event(request: PurgeRequest, did: int, *, now: int | None) -> dict[str, Any]:
    data: dict[str, Any] = {"what": "jobs", "name": request.about, "did": did}
    if request.reason:
        data["reason"] = request.reason
    return event_values(PURGED, "", "", "", 0, now=now, request=request.id, actor=request.actor, data=data)


def failure_data(verdict: Verdict, reasons: Mapping[str, Any]) -> dict[str, Any]:
    """What the log says of a failure outside any attempt."""
    return {
        "class": verdict.error_class,
        "message": verdict.message,
        "group": verdict.group,
        "reasons": {"rule": verdict.rule, "code": verdict.code, **reasons},
    }


def lane_values(job: Job[Any]) -> dict[str, Any]:
    """Where a job stands in its lane."""
    return {
        "queue": job.queue,
        "kind": job.kind,
        "service": job.service,
        "priority": job.priority,
        "id": job.id,
    }


def filter_conditions(wanted: JobFilter, owner: str | None, cursor: str | None) -> tuple[list[str], dict[str, Any]]:
    """Fixed texts and bound values. Spelled so that the partial indexes serve them. `{{name}}` is a store's own."""
    values: dict[str, Any] = {
        "cursor": cursor,
        "owner": owner if owner is not None else wanted.owner,
        "kind": wanted.kind,
        "queue": wanted.queue,
        "code": wanted.code,
        "last_code": wanted.last_code,
        "group": wanted.group,
        "batch": wanted.batch,
        "tag": wanted.tag,
        "version": wanted.version,
        "since": wanted.since and to_time(wanted.since),
        "until": wanted.until and to_time(wanted.until),
    }
    texts = {
        "cursor": "id < :cursor",
        "owner": "owner = :owner AND owner <> ''" if values["owner"] else "owner = :owner",
        "kind": "kind = :kind",
        "queue": "queue = :queue",
        "code": "error_code = :code AND state = 'failed'",
        "last_code": "last_code = :last_code",
        "group": "error_group = :group AND state = 'failed'",
        "batch": "batch = :batch",
        "tag": "{{has_tag}}",
        "version": "version = :version",
        "since": "enqueued_at >= :since",
        "until": "enqueued_at < :until",
    }
    conditions = [text for name, text in texts.items() if values[name] is not None]
    if wanted.owner is not None and wanted.owner != values["owner"]:
        conditions.append("false")
    if wanted.state is not None:
        conditions.append(f"state = '{State(wanted.state)}'")
    return conditions or ["true"], values
