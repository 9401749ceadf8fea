"""Why is it not running? The gates between a job and a worker, in the engine's order, as `explain` found them."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mulligan.explain import Explanation, Hold, HoldCode
from mulligan.lifecycle import State
from mulligan.records.job import Job
from mulligan.web.pages.blocks import to_block
from mulligan.web.pages.pieces import Pieces, ago, clock, countdown

OPEN, SHUT, LATER = "open", "shut", "later"
DUE, PAUSES, SLOT, BUDGET, SERVICE, WORKER = range(6)

_GATE_OF: dict[HoldCode, int] = {
    HoldCode.DELAY: DUE,
    HoldCode.RETRY: DUE,
    HoldCode.SNOOZE: DUE,
    HoldCode.RATE_LIMIT: DUE,
    HoldCode.ANOTHER_VERSION: DUE,
    HoldCode.WAITING: DUE,
    HoldCode.BATCH_DRAFT: DUE,
    HoldCode.PAUSED: PAUSES,
    HoldCode.LIMIT: SLOT,
    HoldCode.SERVICE_BUDGET: BUDGET,
    HoldCode.OWNER_BUDGET: BUDGET,
    HoldCode.SERVICE_OPEN: SERVICE,
    HoldCode.SERVICE_FORCED_OPEN: SERVICE,
    HoldCode.SERVICE_HALF_OPEN: SERVICE,
    HoldCode.SERVICE_CHARGED: SERVICE,
    HoldCode.NO_WORKER: WORKER,
    HoldCode.NO_WORKER_FOR_KIND: WORKER,
    HoldCode.NO_WORKER_FOR_QUEUE: WORKER,
}
# They slow a service down, and hold no job for long.
PACES = (HoldCode.SERVICE_PACED, HoldCode.SERVICE_RATE)
_SIGNS = ("waiting", "held", "stack", "recovering", "open", "queued")


@dataclass(frozen=True, slots=True)
class Gate:
    """`standing` is open, shut, or later: it comes after one that is shut. `link` leads to what holds the job."""

    title: str
    text: Pieces
    standing: str
    sign: str
    link: str = ""


def first_hold(explanation: Explanation) -> Hold | None:
    """What holds the job now: of the gates that are shut, the first. None if it goes on by itself."""
    if explanation.job.state is State.RUNNING:
        return next(iter(explanation.holds), None)
    return next(iter(_by_gate(explanation).values()), None)


def gates_of(explanation: Explanation, *, now: datetime, is_admin: bool) -> list[Gate]:
    """Empty for a job that runs or is over."""
    job = explanation.job
    if job.state not in (State.WAITING, State.QUEUED):
        return []
    holds = _by_gate(explanation)
    first = min(holds, default=len(_SIGNS))
    pace = next((hold.sentence for hold in explanation.holds if hold.code in PACES), "")
    gates = (_gate(number, job, holds.get(number), first, pace, now) for number in range(len(_SIGNS)))
    return [replace(gate, link=_link(holds.get(number), is_admin=is_admin)) for number, gate in enumerate(gates)]


def _by_gate(explanation: Explanation) -> dict[int, Hold]:
    """The holds by the number of their gate, in order. That a service is down says more than what it was charged."""
    held = [hold for hold in explanation.holds if hold.code in _GATE_OF]
    held.sort(key=lambda hold: (_GATE_OF[hold.code], hold.code is HoldCode.SERVICE_CHARGED))
    found: dict[int, Hold] = {}
    for hold in held:
        found.setdefault(_GATE_OF[hold.code], hold)
    return found


def _gate(number: int, job: Job[Any], hold: Hold | None, first: int, pace: str, now: datetime) -> Gate:
    standing = OPEN if number < first else SHUT if number == first else LATER
    title, text = _shut(job, hold, now) if hold is not None else _open(number, job, standing, pace, now)
    sign = "succeeded" if standing == OPEN else _SIGNS[number]
    return Gate(title, text, standing, sign)


def _open(number: int, job: Job[Any], standing: str, pace: str, now: datetime) -> tuple[str, Pieces]:
    """Its title and what is known of it; nothing of a gate that is not reached."""
    is_reached = standing == OPEN
    service = f"Service {job.service}" if job.service else "No service"
    match number:
        case 0:
            return "It is due", ("since ", clock(job.due_at), ", ", ago(job.due_at)) if job.due_at <= now else ()
        case 1:
            paused = f"queue {job.queue}, kind {job.kind}"
            return ("Nothing is paused", (paused,)) if is_reached else ("Pauses", ())
        case 2:
            return ("A slot is free", ("no limit holds it",)) if is_reached else ("A slot", ())
        case 3:
            return ("Retries are left", ("no budget holds it",)) if is_reached else ("The retry budget", ())
        case 4:
            return service, ((pace or "it is called as usual",) if job.service else ("the task names none",))
    return ("A worker is there", ("the next free one takes it",)) if is_reached else ("A worker", ())


def _shut(job: Job[Any], hold: Hold, now: datetime) -> tuple[str, Pieces]:
    until: Pieces = ()
    if hold.until is not None and hold.until > now:
        until = ("until ", clock(hold.until), ", in ", countdown(hold.until))
    match hold.code:
        case HoldCode.BATCH_DRAFT:
            return "Its batch is a draft", ("it runs when the batch is published",)
        case HoldCode.PAUSED:
            block = to_block(hold.by or "")
            said = block.words[0].upper() + block.words[1:]
            return said, until or ("until it is resumed",)
        case HoldCode.LIMIT:
            block = to_block(hold.by or "")
            return "No slot is free", (f"{block.part} {block.name}: {hold.sentence.rpartition(': ')[2].rstrip('.')}",)
        case HoldCode.SERVICE_BUDGET | HoldCode.OWNER_BUDGET:
            return "The retry budget is used up", until or (to_block(hold.by or "").words,)
        case HoldCode.SERVICE_OPEN | HoldCode.SERVICE_FORCED_OPEN | HoldCode.SERVICE_HALF_OPEN:
            return f"Service {job.service}", _service(hold, is_probed_later=bool(until))
        case HoldCode.SERVICE_CHARGED:
            return f"Service {job.service}", ("its last call failed and was charged to the service",)
        case HoldCode.NO_WORKER:
            return "No worker is alive", ("start one: mulligan worker",)
        case HoldCode.NO_WORKER_FOR_KIND:
            return "No worker knows it", (f"none that is alive knows kind {job.kind}",)
        case HoldCode.NO_WORKER_FOR_QUEUE:
            return "No worker serves its queue", (f"none that knows it serves queue {job.queue}",)
    return "It is not due yet", until


def _service(hold: Hold, *, is_probed_later: bool) -> Pieces:
    if hold.code is HoldCode.SERVICE_HALF_OPEN:
        return ("it is being probed",)
    since: Pieces = () if hold.since is None else (" since ", clock(hold.since))
    if hold.code is HoldCode.SERVICE_FORCED_OPEN:
        return ("opened manually", *since)
    probe: Pieces = ("; probed in ", countdown(hold.until)) if is_probed_later and hold.until else ()
    return ("down", *since, *probe)


def _link(hold: Hold | None, *, is_admin: bool) -> str:
    """The page of what holds it. Owners have no pages about services and workers."""
    if hold is None:
        return ""
    block = to_block(hold.by or "")
    if block.what == "batch":
        return f"/batches/{block.name}"
    if not is_admin:
        return ""
    if block.what == "service" or block.part == "service":
        return f"/services/{block.name}"
    if block.what in ("pause", "limit") or hold.code is HoldCode.NO_WORKER_FOR_QUEUE:
        return "/duties" if block.part == "duty" else "/queues"
    return "/workers" if _GATE_OF[hold.code] == WORKER else ""
