"""`mulligan services`: how the services that tasks depend on stand; force one, or leave it to its calls again."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.opening import opened_existing, opened_existing_with_tasks
from mulligan.cli.options import CliCommand, Given, Group, pass_given
from mulligan.cli.output import say, say_json, say_pairs, say_table
from mulligan.cli.parameters import text
from mulligan.cli.pauses import SIGNED, said
from mulligan.console.documents import document_of
from mulligan.console.services import MANY
from mulligan.explain.holds import a_second, reason_open
from mulligan.explain.words import at, counted, quoted, relative
from mulligan.values.duration import describe
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.service.records import ServiceStatus

NAME = click.Argument(["name"], metavar="NAME", type=text)
SHARED = "for names beyond those that are told apart"
HEADINGS = ("Service", "State", "Since", "Until", "Failures", "Waiting", "About")


@click.group("services", cls=Group, invoke_without_command=True)
@click.pass_context
def services(context: click.Context) -> None:
    """List services: how each stands, and what waits for it."""
    if context.invoked_subcommand is None:
        _list(context.ensure_object(Given))


def _list(given: Given) -> None:
    with opened_existing(given) as app:
        found = app.console.services()
        now = app.store.now()
    if given.as_json:
        say_json({"services": [_document(service) for service in found]})
    elif not found:
        say("There are no services. Name one where a task depends on it: @app.task(service=…)")
    else:
        say_table(HEADINGS, [_row(service, now) for service in found])


def _document(service: "ServiceStatus") -> dict[str, Any]:
    return document_of(service) | {"paused": service.paused and document_of(service.paused)}


def _row(service: "ServiceStatus", now: datetime) -> tuple[str, ...]:
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


def _state(service: "ServiceStatus") -> str:
    return service.state.replace("_", "-")


def _about(service: "ServiceStatus", now: datetime) -> Iterator[str]:
    if service.name.endswith("*"):
        yield SHARED
    if service.paused:
        yield said(service.paused, now)
    if service.forced:
        yield _forced(service)
    elif service.state == "open":
        yield reason_open(service)
    if service.pace is not None:
        yield f"asked {a_second(service.pace)} after an outage"
    if service.is_failing and service.state == "closed":
        yield "failing: retries wait for their budget"


def _forced(service: "ServiceStatus") -> str:
    why = f" because {quoted(service.reason)}" if service.reason else ""
    return f"forced {service.forced} by {service.actor or 'somebody'}{why}"


@pass_given
def _show(given: Given, *, name: str) -> None:
    with opened_existing(given) as app:
        service = app.console.service(name)
        now = app.store.now()
    if given.as_json:
        say_json(_document(service))
    else:
        say_pairs([(label, safe(value)) for label, value in _pairs(service, now)])


def _pairs(service: "ServiceStatus", now: datetime) -> Iterator[tuple[str, str]]:
    yield "service", service.name
    since = f" since {at(service.since, now)}" if service.since else ""
    yield "state", f"{_state(service)}{since}{'' if service.is_known else '; no trouble is known'}"
    if service.name.endswith("*"):
        yield "pattern", "its settings are those of all names that begin so"
        yield "shared", SHARED
    if service.paused:
        yield "paused", said(service.paused, now)
    if service.forced:
        yield "forced", _forced(service)
    if service.trouble:
        yield "because", reason_open(service)
    if service.open_until:
        yield "probed", f"from {at(service.open_until, now)} on"
    elif service.is_due:
        yield "probed", "by the next worker that asks for work"
    # Calls that went well are not kept while there is no trouble.
    if service.calls:
        yield "calls", f"{service.calls} in its window, {service.failures} failed ({service.share:.0%})"
    yield "waiting", f"{_many(service.ready)} ready, {_many(service.parked)} more for the budget of retries"
    yield from _settings(service)


def _settings(service: "ServiceStatus") -> Iterator[tuple[str, str]]:
    if service.pace is not None:
        before = f", {a_second(service.rate_before)} before the outage" if service.rate_before else ""
        yield "pace", f"{a_second(service.pace)}{before}"
    if service.most_a_second is not None:
        yield "rate", f"{a_second(service.most_a_second)} at most"
    binds = f"; it binds now, {service.retries} for {service.firsts}" if service.is_failing else ""
    yield "budget", "none" if service.budget is None else f"retries {service.budget:.0%} of first tries{binds}"
    probes = "its own probe" if service.has_probe else counted(service.probes, "job")
    yield "mode", f"{service.mode}; after {describe(service.cooldown)} {probes} may try it"


def _forcing(to: str | None) -> Any:
    @pass_given
    def force(given: Given, *, name: str, actor: str, reason: str | None) -> None:
        # What is stored of a forced service depends on how its app has it: whether it fails fast, how fast it is asked.
        with opened_existing_with_tasks(given) as app:
            service = app.console.force_service(name, to, actor=actor, reason=reason)
        if given.as_json:
            say_json(_document(service))
        else:
            how = _forced(service) if service.forced else "left to its calls"
            say(safe(f"{service.name} is {_state(service)}, {how}."))

    return force


OPEN = "Hold a service's jobs, or let them fail fast, whatever its calls say; needs its app."
CLOSE = "Let a service's jobs run, whatever its calls say; needs its app."
AUTO = "Let a service go by its calls again; after it was forced open, a probe comes first. Needs its app."

services.add_command(CliCommand("list", callback=pass_given(_list), help="List the services."))
services.add_command(CliCommand("show", callback=_show, params=[NAME], help="Show one with its figures and settings."))
for verb, to, about in (("open", "open", OPEN), ("close", "closed", CLOSE), ("auto", None, AUTO)):
    services.add_command(CliCommand(verb, callback=_forcing(to), params=[NAME, *SIGNED], help=about))
