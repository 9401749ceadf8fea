"""The options of every command, before or after its name: app, database, output format."""

from dataclasses import dataclass
from typing import Any

import click


@dataclass(slots=True)
class SharedOptions:
    """The values of these options."""

    app: str | None = None
    database: str | None = None
    as_json: bool = False


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    shared = context.ensure_object(SharedOptions)
    if value:
        setattr(shared, parameter.name or "", value)


def _options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--app"],
            metavar="MODULE:APP",
            help="The app to use, with its tasks and its database; also FILE.py:APP.  [env: MULLIGAN_APP]",
            expose_value=False,
            callback=_keep,
        ),
        click.Option(
            ["--database"],
            metavar="URL",
            help="The database, such as sqlite:///jobs.db.  [env: MULLIGAN_DATABASE_URL]",
            expose_value=False,
            callback=_keep,
        ),
        click.Option(
            ["--json", "as_json"],
            is_flag=True,
            help='For programs: JSON on stdout, an error as {"error": {"type", "message"}} on stderr.',
            expose_value=False,
            callback=_keep,
        ),
    ]


class CliCommand(click.Command):
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += _options()


class Group(click.Group):
    command_class = CliCommand

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += _options()


pass_shared = click.make_pass_decorator(SharedOptions, ensure=True)
