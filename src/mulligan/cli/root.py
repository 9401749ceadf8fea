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

COMMANDS = {
    "demo": "mulligan.cli.start_demo:demo",
    "worker": "mulligan.cli.worker:worker",
    "jobs": "mulligan.cli.jobs:jobs",
    "batches": "mulligan.cli.batches:batches",
    "redrive": "mulligan.cli.redrive:redrive",
    "bulk": "mulligan.cli.bulk:bulk",
    "owners": "mulligan.cli.owners:owners",
    "events": "mulligan.cli.events:events",
    "workers": "mulligan.cli.workers:workers",
    "limits": "mulligan.cli.limits:limits",
    "duties": "mulligan.cli.duties:duties",
    "schedules": "mulligan.cli.schedules:schedules",
    "services": "mulligan.cli.services:services",
    "pause": "mulligan.cli.pauses:pause",
    "resume": "mulligan.cli.pauses:resume",
    "pauses": "mulligan.cli.pauses:pauses",
    "policies": "mulligan.cli.policies:policies",
    "migrate": "mulligan.cli.migrate:migrate",
    "doctor": "mulligan.cli.doctor:doctor",
}


WANTS_JSON = "mulligan.wants_json"


class Root(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

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
