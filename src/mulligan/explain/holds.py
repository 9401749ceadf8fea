"""Why a ready job is not claimed: its queue, kind or service is paused, or its service is not closed."""

import shlex
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime
from typing import Any

from mulligan.explain.event_data import EventData
from mulligan.explain.words import counted, end_sentence, quoted
from mulligan.lifecycle import State
from mulligan.records.job import Job
from mulligan.records.pause import Pause
from mulligan.service.records import ServiceStatus

LIVE = (State.WAITING, State.QUEUED)
At = Callable[[datetime], str]
BUDGET = "budget/"
PROBE = "probe/"

_REASONS = {
    "share": "{failures} of its last {calls} calls failed",
    "in_a_row": "its last {in_a_row} calls failed in a row",
    "probe": "its probe failed",
    "asked": "it asked to be left alone",
}


def describe_holds(job: Job[Any], *, pauses: Sequence[Pause], service: ServiceStatus | None, at: At) -> list[str]:
    """The sentences; none if nothing holds the job back."""
    return [*_paused(job, pauses, at), *_shared_service(job), *(_service(service, at) if service else [])]


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


def _paused(job: Job[Any], pauses: Sequence[Pause], at: At) -> list[str]:
    parts = {"queue": job.queue, "kind": job.kind, "service": job.service}
    sentences: list[str] = []
    for pause in pauses:
        if parts.get(pause.what) == pause.name:
            sentences.append(describe_pause(pause, at))
            sentences.append(f"To resume earlier: mulligan resume --{pause.what} {shlex.quote(pause.name)}")
    return sentences


def describe_pause(pause: Pause, at: At) -> str:
    until = f" until {at(pause.until)}" if pause.until else " until it is resumed"
    who = f" by {pause.actor}" if pause.actor else ""
    why = f" because {quoted(pause.reason)}" if pause.reason else ""
    return end_sentence(f"Its {pause.what} {pause.name!r} is paused{until}{who}{why}")


def _service(service: ServiceStatus, at: At) -> list[str]:
    match service.state:
        case "open" if service.forced:
            release = f"To let its calls decide again: mulligan services auto {shlex.quote(service.name)}"
            return [_forced(service, at), _consequence(service), release]
        case "open":
            return [_open(service, at), _consequence(service)]
        case "half_open":
            return [_half_open(service, at)]
    return _rate_limits(service)


def _forced(service: ServiceStatus, at: At) -> str:
    since = f" since {at(service.since)}" if service.since else ""
    why = f" because {quoted(service.reason)}" if service.reason else ""
    return end_sentence(f"Its service {service.name!r} is forced open{since} by {service.actor or 'a person'}{why}")


def _open(service: ServiceStatus, at: At) -> str:
    since = f" since {at(service.since)}" if service.since else ""
    why = reason_open(service)
    until = f"; it is probed from {at(service.open_until)} on" if service.open_until else "; it is due for a probe now"
    return f"Its service {service.name!r} is open{since}{f': {why}' if why else ''}{until}."


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


def _half_open(service: ServiceStatus, at: At) -> str:
    since = f" since {at(service.since)}" if service.since else ""
    who = "its own probe" if service.has_probe else counted(service.probes, "job")
    rest = "succeeds" if service.has_probe or service.probes == 1 else "succeed"
    done = f" ({service.probes_succeeded} of {service.probes} did)" if service.probes > 1 else ""
    return f"Its service {service.name!r} is being probed{since}: the other jobs wait until {who} {rest}{done}."


def _rate_limits(service: ServiceStatus) -> list[str]:
    sentences = []
    if service.pace is not None:
        before = f", rising to {service.rate_before:.3g} as before the outage" if service.rate_before else ""
        sentences.append(f"Its service {service.name!r} is called {a_second(service.pace)} after an outage{before}.")
    if service.most_a_second is not None:
        rate = a_second(service.most_a_second)
        sentences.append(f"Its service {service.name!r} is called at most {rate}, as configured.")
    return sentences


def a_second(rate: float) -> str:
    """`12 times a second`, `once a second`, and below that `30 times a minute`."""
    number, unit = (rate, "second") if rate >= 1 else (rate * 60, "minute")
    return f"once a {unit}" if f"{number:.3g}" == "1" else f"{number:.3g} times a {unit}"


def waits_for_service(job: Job[Any]) -> str:
    """For a job whose call failed while its service was not closed; empty if it waits for something else."""
    if not (job.gate or "").startswith(PROBE):
        return ""
    return (
        f"Its last call failed while service {job.service!r} was not closed, and the service was charged for it: "
        "it is retried when the service is closed, or when all other jobs of the service were tried."
    )


def waits_for_budget(job: Job[Any], service: ServiceStatus | None) -> str:
    """For a retry that is due; empty if it waits for something else."""
    if not (job.gate or "").startswith(BUDGET):
        return ""
    name = (job.gate or "").removeprefix(BUDGET)
    limit = f": retries are at most {service.budget:.0%} of first attempts" if service and service.budget else ""
    figures = f", and there were {service.retries} retries for {service.firsts}" if service and limit else ""
    return f"It waits for the retry budget of service {name!r}, which is failing{limit}{figures}."
