"""Why a ready job is not claimed: its queue, kind or service is paused, or its service is not closed."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from mulligan.explain.actions import change_service, resume
from mulligan.explain.context import Context
from mulligan.explain.event_data import EventData
from mulligan.explain.explanation import Hold, HoldCode, Part
from mulligan.explain.words import counted, end_sentence, quoted
from mulligan.lifecycle import State
from mulligan.records.job import Job
from mulligan.records.pause import Pause
from mulligan.service.records import ServiceStatus

LIVE = (State.WAITING, State.QUEUED)
BUDGET = "budget/"
PROBE = "probe/"

_PAUSED_DUTIES = {
    "retry": "Retries are paused",
    "promote": "Promoting delayed jobs is paused",
    "reclaim": "Reclaiming expired leases is paused",
}
_REASONS = {
    "share": "{failures} of its last {calls} calls failed",
    "in_a_row": "its last {in_a_row} calls failed in a row",
    "probe": "its probe failed",
    "asked": "it asked to be left alone",
}


def describe_holds(job: Job[Any], context: Context) -> list[Part]:
    """Nothing if nothing holds the job back."""
    service = _service(context.service, context) if context.service else []
    return [*_paused(job, context), *_shared_service(job), *service]


def blocked_by(job: Job[Any], *, pauses: Sequence[Pause], holding: Container[str]) -> str | None:
    """What blocks the job, as a key for lists and programs: `service/gateway`, `limit/kind/convert`,
    `pause/queue/bulk`, `budget/service/gateway`, `budget/owner/acme`, `batch/ID`. `holding` contains the services that
    hold their jobs."""
    if job.state not in LIVE:
        return None
    # A job behind the gate of failed probes waits for its service, which is checked below.
    if (gate := job.gate) and not gate.startswith(PROBE):
        return _public_gate(gate)
    named = ((pause.what, pause.name) for pause in pauses)
    parts = {("queue", job.queue), ("kind", job.kind), ("service", job.service)}
    paused = next((f"pause/{what}/{name}" for what, name in named if (what, name) in parts), None)
    return paused or (f"service/{job.service}" if job.service in holding else None)


def _public_gate(gate: str) -> str:
    """The stored gate in its public form."""
    for stored, said in _PUBLIC_GATES.items():
        if gate.startswith(stored):
            return said + gate.removeprefix(stored)
    return gate


# Longer prefixes come first.
_PUBLIC_GATES = {
    "limit/pause/": "pause/",
    "limit/service/": "service/",
    "duty/": "pause/duty/",
    "owner-budget/": "budget/owner/",
    BUDGET: "budget/service/",
}


def _shared_service(job: Job[Any]) -> list[str]:
    """Its service's name was one too many to be tracked separately."""
    if not job.service.endswith("*"):
        return []
    return [f"It shares service {job.service!r} with others: there are more names than can be tracked separately."]


def _paused(job: Job[Any], context: Context) -> list[Hold]:
    parts = {"queue": job.queue, "kind": job.kind, "service": job.service}
    return [
        _pause(pause, f"Its {pause.what} {pause.name!r} is paused", " until it is resumed", context)
        for pause in context.pauses
        if parts.get(pause.what) == pause.name
    ]


def duty_pause(duty: str, context: Context) -> list[Hold]:
    """The pause of the duty that would move the job on."""
    pause = context.pause_of(duty)
    return [] if pause is None else [_pause(pause, _PAUSED_DUTIES[duty], "", context)]


def _pause(pause: Pause, what: str, without_end: str, context: Context) -> Hold:
    until = f" until {context.at(pause.until)}" if pause.until else without_end
    who = f" by {pause.actor}" if pause.actor else ""
    why = f" because {quoted(pause.reason)}" if pause.reason else ""
    return Hold(
        code=HoldCode.PAUSED,
        sentence=end_sentence(f"{what}{until}{who}{why}"),
        by=f"pause/{pause.what}/{pause.name}",
        actor=pause.actor,
        reason=pause.reason,
        since=pause.since,
        until=pause.until,
        actions=(resume(pause.what, pause.name),),
    )


def _service(service: ServiceStatus, context: Context) -> list[Hold]:
    match service.state:
        case "open" if service.forced:
            return [_forced(service, context)]
        case "open":
            return [_open(service, context)]
        case "half_open":
            return [_half_open(service, context)]
    return _rate_limits(service)


def _forced(service: ServiceStatus, context: Context) -> Hold:
    since = f" since {context.at(service.since)}" if service.since else ""
    who = "" if context.is_for_owner else f" by {service.actor or 'a person'}"
    why = f" because {quoted(service.reason)}" if service.reason else ""
    return Hold(
        code=HoldCode.SERVICE_FORCED_OPEN,
        sentence=end_sentence(f"Its service {service.name!r} is forced open{since}{who}{why}"),
        notes=(_consequence(service),),
        by=f"service/{service.name}",
        actor=service.actor,
        reason=service.reason,
        since=service.since,
        actions=(change_service("auto", service.name, "To let its calls decide again"),),
    )


def _open(service: ServiceStatus, context: Context) -> Hold:
    since = f" since {context.at(service.since)}" if service.since else ""
    why = reason_open(service)
    probed = (
        f"it is probed from {context.at(service.open_until)} on" if service.open_until else "it is due for a probe now"
    )
    return Hold(
        code=HoldCode.SERVICE_OPEN,
        sentence=f"Its service {service.name!r} is open{since}{f': {why}' if why else ''}; {probed}.",
        notes=(_consequence(service),),
        by=f"service/{service.name}",
        since=service.since,
        until=service.open_until,
        actions=(change_service("close", service.name, "To let all its jobs run, whatever its calls show"),),
    )


def reason_open(service: ServiceStatus) -> str:
    return describe_trouble(service.trouble)


def describe_trouble(data: Mapping[str, Any] | None) -> str:
    """Why a service opened, with its figures at that time."""
    facts = EventData(data)
    said = _REASONS.get(facts.text("because"), "")
    return said.format(**{name: facts.integer(name) for name in ("calls", "failures", "in_a_row")})


def _consequence(service: ServiceStatus) -> str:
    if service.mode == "fail_fast":
        return f"It is set to fail fast: its jobs do not run and fail with {service.fail_code}."
    return "Its jobs wait, and no attempt is used up."


def _half_open(service: ServiceStatus, context: Context) -> Hold:
    since = f" since {context.at(service.since)}" if service.since else ""
    return Hold(
        code=HoldCode.SERVICE_HALF_OPEN,
        sentence=f"Its service {service.name!r} is being probed{since}: the other jobs wait until {_probes(service)}.",
        by=f"service/{service.name}",
        since=service.since,
    )


def _probes(service: ServiceStatus) -> str:
    if service.is_checked:
        return "one of those that are tried now succeeds; its health check did"
    who = "its own probe" if service.has_probe else counted(service.probes, "job")
    verb = "succeeds" if service.has_probe or service.probes == 1 else "succeed"
    done = f" ({service.probes_succeeded} of {service.probes} did)" if service.probes > 1 else ""
    return f"{who} {verb}{done}"


def _rate_limits(service: ServiceStatus) -> list[Hold]:
    by, holds = f"service/{service.name}", []
    if service.pace is not None:
        before = f", rising to {service.rate_before:.3g} as before the outage" if service.rate_before else ""
        paced = f"Its service {service.name!r} is called {a_second(service.pace)} after an outage{before}."
        holds.append(Hold(code=HoldCode.SERVICE_PACED, sentence=paced, by=by))
    if service.most_a_second is not None:
        limited = f"Its service {service.name!r} is called at most {a_second(service.most_a_second)}, as configured."
        holds.append(Hold(code=HoldCode.SERVICE_RATE, sentence=limited, by=by))
    return holds


def a_second(rate: float) -> str:
    """`12 times a second`, `once a second`, and below that `30 times a minute`."""
    number, unit = (rate, "second") if rate >= 1 else (rate * 60, "minute")
    return f"once a {unit}" if f"{number:.3g}" == "1" else f"{number:.3g} times a {unit}"


def waits_for_service(job: Job[Any]) -> Hold | None:
    """For a job whose call failed while its service was not closed; None if it waits for something else."""
    if not (job.gate or "").startswith(PROBE):
        return None
    charged = (
        f"Its last call failed while service {job.service!r} was not closed, and the service was charged for it: "
        "it is retried when the service is closed, or when all other jobs of the service were tried."
    )
    return Hold(code=HoldCode.SERVICE_CHARGED, sentence=charged, by=f"service/{job.service}")


def waits_for_budget(job: Job[Any], service: ServiceStatus | None) -> Hold | None:
    """For a retry that is due; None if it waits for something else."""
    if not (job.gate or "").startswith(BUDGET):
        return None
    name = (job.gate or "").removeprefix(BUDGET)
    limit = f": retries are at most {service.budget:.0%} of first attempts" if service and service.budget else ""
    figures = f", and there were {service.retries} retries for {service.firsts}" if service and limit else ""
    waits = f"It waits for the retry budget of service {name!r}, which is failing{limit}{figures}."
    return Hold(code=HoldCode.SERVICE_BUDGET, sentence=waits, by=f"budget/service/{name}")
