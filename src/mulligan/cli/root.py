"""`mulligan`: the group of all commands. A command's module is imported when it is called."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from mulligan.cli.errors import WrongUsage, command_error
from mulligan.cli.options import Group, SharedOptions
from mulligan.errors import MulliganError
from mulligan.values.suggest import did_you_mean
from mulligan.values.text import safe

# Where each command is, and the first line of its help: to list them, nothing needs to be imported.
COMMANDS = {
    "demo": ("mulligan.cli.start_demo:demo", "Watch jobs run, fail, wait, succeed and die."),
    "worker": ("mulligan.cli.worker:worker", "Run jobs until SIGTERM or Ctrl-C."),
    "serve": ("mulligan.cli.serve:serve", "Serve the HTTP API until SIGTERM or Ctrl-C."),
    "jobs": ("mulligan.cli.jobs:jobs", "Find, explain, retry and cancel jobs."),
    "batches": ("mulligan.cli.batches:batches", "List batches with the counts of their members."),
    "redrive": ("mulligan.cli.redrive:redrive", "Retry many failed jobs at a rate, canaries first."),
    "failures": ("mulligan.cli.failures:failures", "List failure groups, those that hurt most first."),
    "stats": ("mulligan.cli.stats:stats", "Show what happened, and whether retries helped."),
    "metrics": ("mulligan.cli.metrics:metrics", "Print all metrics in the text format of Prometheus."),
    "bulk": ("mulligan.cli.bulk:bulk", "Cancel, snooze or run many jobs at a rate."),
    "owners": ("mulligan.cli.owners:owners", "Owners of jobs."),
    "events": ("mulligan.cli.events:events", "Show the event log, oldest first."),
    "history": ("mulligan.cli.history:history", "Show what happened to one service or one batch itself, newest first."),
    "projections": (
        "mulligan.cli.projections:projections",
        "List the projections, the one that is furthest behind first.",
    ),
    "workers": ("mulligan.cli.workers:workers", "List the workers."),
    "queues": ("mulligan.cli.queues:queues", "List the queues, with their ready jobs and workers."),
    "limits": ("mulligan.cli.limits:limits", "List the concurrency limits in force."),
    "duties": ("mulligan.cli.duties:duties", "List the duties, with their last run and pause."),
    "schedules": ("mulligan.cli.schedules:schedules", "List the schedules, with their next ticks and last run."),
    "services": ("mulligan.cli.services:services", "List services with their state and their waiting jobs."),
    "pause": ("mulligan.cli.pauses:pause", "Pause something in all workers."),
    "resume": ("mulligan.cli.pauses:resume", "End a pause."),
    "pauses": ("mulligan.cli.pauses:pauses", "List the pauses in force: by whom, why, until when."),
    "policies": ("mulligan.cli.policies:policies", "Show and check retry policies, reclassify failures."),
    "subscriptions": (
        "mulligan.cli.subscriptions:subscriptions",
        "List, add, test and remove subscriptions to events, by mail and webhook.",
    ),
    "deliveries": ("mulligan.cli.deliveries:deliveries", "List mails and webhooks, and send them again."),
    "hooks": (
        "mulligan.cli.hooks:hooks",
        "Create, list and remove incoming hooks, which retry failed jobs when they are called.",
    ),
    "alerts": ("mulligan.cli.alerts:alerts", "List the alerts that fire; set and silence their rules."),
    "keys": (
        "mulligan.cli.keys:keys",
        "Create, list and revoke keys of the HTTP API, and sign in to the dashboard with one.",
    ),
    "audit": ("mulligan.cli.audit:audit", "List changes made through the HTTP API, and changes of keys, newest first."),
    "migrate": ("mulligan.cli.migrate:migrate", "Bring the database up to date."),
    "doctor": ("mulligan.cli.doctor:doctor", "Report what is wrong, with the remedy."),
}


WANTS_JSON = "mulligan.wants_json"


class Root(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        place, _ = COMMANDS[cmd_name]
        module, _, name = place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            near = did_you_mean(args[0], COMMANDS).strip()
            ctx.fail(f"No such command {args[0]!r:.80}. {near.capitalize()}".strip())
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Options after a mistake are not parsed, but the format of the error depends on --json.
        ctx.meta[WANTS_JSON] = "--json" in args
        with _one_line_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_line_errors(ctx):
            return super().invoke(ctx)


@contextmanager
def _one_line_errors(context: click.Context) -> Iterator[None]:
    """Turn every error of ours into one line and an exit code, never a traceback."""
    shared = context.ensure_object(SharedOptions)
    try:
        yield
    except MulliganError as error:
        raise command_error(error, shared) from None
    except click.UsageError as error:
        shared.as_json = shared.as_json or context.meta[WANTS_JSON]
        if shared.as_json:
            raise WrongUsage("Usage", error.format_message(), shared) from None
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            raise
        # The message repeats what was typed or pasted.
        raise click.UsageError(safe(error.format_message()), error.ctx) from None


@click.group("mulligan", cls=Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mulligan", message="mulligan %(version)s")
def root() -> None:
    """Durable jobs, and what happens when they fail.

    Exit codes: 0 done, 2 wrong usage or settings, 4 not found, 5 not possible now.
    """
