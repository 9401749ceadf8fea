"""Why a job that is ready is left where it is: its queue, its kind or its service is paused, or its service is held."""

import shlex
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime
from typing import Any

from mulligan.explain.event_data import Facts
from mulligan.explain.words import counted, ended, quoted
from mulligan.lifecycle import State
from mulligan.records.job import Job
from mulligan.records.pause import Pause
from mulligan.service.records import ServiceStatus

LIVE = (State.WAITING, State.QUEUED)
At = Callable[[datetime], str]
BUDGET = "budget/"
PROBE = "probe/"

_BECAUSE = {
    "share": "{failures} of its last {calls} calls failed",
    "in_a_row": "its last {in_a_row} calls failed, one after the other",
    "probe": "its probe failed",
    "asked": "it asked to be left alone",
}


def held(job: Job[Any], *, pauses: Sequence[Pause], service: ServiceStatus | None, at: At) -> list[str]:
    """Nothing when nobody holds it back."""
    return [*_paused(job, pauses, at), *_shared(job), *(_service(service, at) if service else [])]


def blocked_by(job: Job[Any], *, pauses: Sequence[Pause], holding: Container[str]) -> str | None:
    """The same as a word for lists and programs: `service/gateway`, `limit/kind/convert`, `pause/queue/bulk`,
    `budget/service/gateway`, `budget/owner/acme`, `batch/ID`. `holding` are the services that hold their jobs."""
    if job.state not in LIVE:
        return None
    # Behind the gate of failed probes it waits for its service, which is asked below.
    if (gate := job.gate) and not gate.startswith(PROBE):
        return _gate(gate)
    named = ((pause.what, pause.name) for pause in pauses)
    parts = {("queue", job.queue), ("kind", job.kind), ("service", job.service)}
    paused = next((f"pause/{what}/{name}" for what, name in named if (what, name) in parts), None)
    return paused or (f"service/{job.service}" if job.service in holding else None)


def _gate(gate: str) -> str:
    """As it is stored, and as people say it."""
    for stored, said in _GATES.items():
        if gate.startswith(stored):
            return said + gate.removeprefix(stored)
    return gate


# What is more special comes first.
_GATES = {
    "limit/pause/": "pause/",
    "limit/service/": "service/",
    "duty/": "pause/duty/",
    "owner-budget/": "budget/owner/",
    BUDGET: "budget/service/",
}


def _shared(job: Job[Any]) -> list[str]:
    """One of more names than are told apart."""
    if not job.service.endswith("*"):
        return []
    return [f"It shares its service {job.service!r} with others: more names came than are told apart."]


def _paused(job: Job[Any], pauses: Sequence[Pause], at: At) -> list[str]:
    parts = {"queue": job.queue, "kind": job.kind, "service": job.service}
    told: list[str] = []
    for pause in pauses:
        if parts.get(pause.what) == pause.name:
            told.append(paused(pause, at))
            told.append(f"To go on before: mulligan resume --{pause.what} {shlex.quote(pause.name)}")
    return told


def paused(pause: Pause, at: At) -> str:
    until = f" until {at(pause.until)}" if pause.until else " until somebody resumes it"
    who = f" by {pause.actor}" if pause.actor else ""
    why = f" because {quoted(pause.reason)}" if pause.reason else ""
    return ended(f"Its {pause.what} {pause.name!r} is paused{until}{who}{why}")


def _service(service: ServiceStatus, at: At) -> list[str]:
    match service.state:
        case "open" if service.forced:
            release = f"To go by its calls again: mulligan services auto {shlex.quote(service.name)}"
            return [_forced(service, at), _what_then(service), release]
        case "open":
            return [_open(service, at), _what_then(service)]
        case "half_open":
            return [_half_open(service, at)]
    return _asked_slowly(service)


def _forced(service: ServiceStatus, at: At) -> str:
    since = f" since {at(service.since)}" if service.since else ""
    why = f" because {quoted(service.reason)}" if service.reason else ""
    return ended(f"Its service {service.name!r} is held open{since} by {service.actor or 'somebody'}{why}")


def _open(service: ServiceStatus, at: At) -> str:
    since = f" since {at(service.since)}" if service.since else ""
    why = because(service)
    until = f"; it is probed from {at(service.open_until)} on" if service.open_until else "; it is to be probed now"
    return f"Its service {service.name!r} is open{since}{f': {why}' if why else ''}{until}."


def because(service: ServiceStatus) -> str:
    return trouble(service.trouble)


def trouble(data: Mapping[str, Any] | None) -> str:
    """Why a service was opened, with its figures at that time."""
    facts = Facts(data)
    said = _BECAUSE.get(facts.text("because"), "")
    return said.format(**{name: facts.whole(name) for name in ("calls", "failures", "in_a_row")})


def _what_then(service: ServiceStatus) -> str:
    if service.mode == "fail_fast":
        return f"It is set to fail fast: its jobs are not tried and fail with {service.fail_code}."
    return "Its jobs stay where they are, and no attempt is used up."


def _half_open(service: ServiceStatus, at: At) -> str:
    since = f" since {at(service.since)}" if service.since else ""
    who = "its own probe" if service.has_probe else counted(service.probes, "job")
    rest = "succeeds" if service.has_probe or service.probes == 1 else "succeed"
    done = f" ({service.probes_succeeded} of {service.probes} did)" if service.probes > 1 else ""
    return f"Its service {service.name!r} is being probed{since}: the others wait until {who} {rest}{done}."


def _asked_slowly(service: ServiceStatus) -> list[str]:
    told = []
    if service.pace is not None:
        before = f", on its way to {service.rate_before:.3g} as before" if service.rate_before else ""
        told.append(f"Its service {service.name!r} is asked {a_second(service.pace)} after an outage{before}.")
    if service.most_a_second is not None:
        told.append(f"Its service {service.name!r} is asked {a_second(service.most_a_second)} at most, as configured.")
    return told


def a_second(rate: float) -> str:
    """`12 times a second`, `once a second`, and for what is seldom `30 times a minute`."""
    number, unit = (rate, "second") if rate >= 1 else (rate * 60, "minute")
    return f"once a {unit}" if f"{number:.3g}" == "1" else f"{number:.3g} times a {unit}"


def waits_for_service(job: Job[Any]) -> str:
    """Of a job whose call failed while its service was not closed; empty when it waits for something else."""
    if not (job.gate or "").startswith(PROBE):
        return ""
    return (
        f"Its last call failed while service {job.service!r} was not closed, and was charged to that: "
        "it is tried again when the service is closed, or when all others of its jobs were tried."
    )


def waits_for_budget(job: Job[Any], service: ServiceStatus | None) -> str:
    """Of a retry that is due; empty when it waits for something else."""
    if not (job.gate or "").startswith(BUDGET):
        return ""
    name = (job.gate or "").removeprefix(BUDGET)
    share = f": retries are at most {service.budget:.0%} of first tries" if service and service.budget else ""
    figures = f", and there were {service.retries} for {service.firsts}" if service and share else ""
    return f"It waits for the retry budget of service {name!r}, which is failing{share}{figures}."
