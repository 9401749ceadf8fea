"""`mulligan services`: list the services of tasks, and force the breaker of one."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import CliCommand, Group, SharedOptions, one_argument, pass_shared, signed, without_subcommand
from mulligan.cli.output import print_json, print_pairs, show, show_table, time_of
from mulligan.cli.pauses import describe_pause
from mulligan.console.services import MANY
from mulligan.explain.holds import a_second, reason_open
from mulligan.explain.words import at, counted, quoted, relative
from mulligan.records.document import document_of
from mulligan.service.records import ServiceStatus
from mulligan.values.duration import describe
from mulligan.values.text import safe

SHARED = "shared by names above the limit of this pattern"
HEADINGS = ("Service", "State", "Since", "Until", "Failures", "Waiting", "About")
NONE = "No services. A task names its service: @app.task(service=…)"
FORCES = {
    "open": "Force a service open. Its jobs wait, or fail fast; needs its app.",
    "close": "Force a service closed. Its jobs run, even if calls fail; needs its app.",
    "auto": "Let calls decide again. After a forced open, a probe comes first; needs its app.",
}


@click.group("services", cls=Group, invoke_without_command=True)
@without_subcommand
def services(shared: SharedOptions) -> None:
    """List services with their state and their waiting jobs."""
    with open_either(shared) as app:
        found = app.services()
        now = time_of(app)
    document = {"services": [document_of(service) for service in found]}
    show_table(shared, document, HEADINGS, [_row(service, now) for service in found], empty=NONE)


services.add_command(CliCommand("list", callback=services.callback, help="List the services."))


def _row(service: ServiceStatus, now: datetime) -> tuple[str, ...]:
    return (
        service.name,
        _state(service),
        relative(service.since, now) if service.since else "",
        relative(service.open_until, now) if service.open_until else "",
        f"{service.failures} of {service.calls}" if service.calls else "",
        _many(service.ready + service.parked) if service.ready + service.parked else "",
        "; ".join(_about(service, now)),
    )


def _many(number: int) -> str:
    return f"{number:,}" if number < MANY else f"{MANY:,} or more"


def _state(service: ServiceStatus) -> str:
    return service.state.replace("_", "-")


def _about(service: ServiceStatus, now: datetime) -> Iterator[str]:
    if service.name.endswith("*"):
        yield SHARED
    if service.paused:
        yield describe_pause(service.paused, now)
    if service.forced:
        yield _forced(service)
    elif service.state == "open":
        yield reason_open(service)
    if service.pace is not None:
        yield f"limited to {a_second(service.pace)} after an outage"
    if service.is_failing and service.state == "closed":
        yield "failing: retries wait for their budget"


def _forced(service: ServiceStatus) -> str:
    why = f" because {quoted(service.reason)}" if service.reason else ""
    return f"forced {service.forced} by {service.actor or 'unknown'}{why}"


@services.command("show")
@one_argument("name", "NAME")
@pass_shared
def show_one(shared: SharedOptions, *, name: str) -> None:
    """Show one service in detail."""
    with open_either(shared) as app:
        service = app.service(name).status
        now = time_of(app)
    if shared.as_json:
        print_json(document_of(service))
    else:
        print_pairs([(label, safe(value)) for label, value in _pairs(service, now)])


def _pairs(service: ServiceStatus, now: datetime) -> Iterator[tuple[str, str]]:
    yield "service", service.name
    since = f" since {at(service.since, now)}" if service.since else ""
    yield "state", f"{_state(service)}{since}{'' if service.is_known else '; no failure is known'}"
    if service.name.endswith("*"):
        yield "pattern", "its settings apply to all names that begin with it"
        yield "shared", SHARED
    if service.paused:
        yield "paused", describe_pause(service.paused, now)
    if service.forced:
        yield "forced", _forced(service)
    if service.trouble:
        yield "because", reason_open(service)
    if service.open_until:
        yield "probed", f"from {at(service.open_until, now)}"
    elif service.is_due:
        yield "probed", "at the next claim of a worker"
    # Successful calls are not stored while the service is healthy.
    if service.calls:
        yield "calls", f"{service.calls} in its window, {service.failures} failed ({service.share:.0%})"
    yield "waiting", f"{_many(service.ready)} ready, {_many(service.parked)} more waiting for the retry budget"
    yield from _settings(service)


def _settings(service: ServiceStatus) -> Iterator[tuple[str, str]]:
    if service.pace is not None:
        before = f", {a_second(service.rate_before)} before the outage" if service.rate_before else ""
        yield "pace", f"{a_second(service.pace)}{before}"
    if service.most_a_second is not None:
        yield "rate", f"{a_second(service.most_a_second)} at most"
    binds = f"; in force now, {service.retries} for {service.firsts}" if service.is_failing else ""
    yield (
        "budget",
        "none" if service.budget is None else f"retries are at most {service.budget:.0%} of first attempts{binds}",
    )
    probes = "its own probe" if service.has_probe else counted(service.probes, "job")
    yield "mode", f"{service.mode}; after {describe(service.cooldown)}, {probes} may probe it"


def _add_force(verb: str, about: str) -> None:
    @services.command(verb, help=about)
    @one_argument("name", "NAME")
    @signed()
    @pass_shared
    def force(shared: SharedOptions, /, *, name: str, **sign: Any) -> None:
        # The stored state depends on the configuration in the app: its mode and its rate.
        with open_either(shared, needs_tasks=True) as app:
            service = getattr(app.service(name), verb)(**sign)
        how = _forced(service) if service.forced else "set to automatic"
        show(shared, document_of(service), f"{service.name} is {_state(service)}, {how}.")


for verb, about in FORCES.items():
    _add_force(verb, about)
