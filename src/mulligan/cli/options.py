"""The options every command takes, before or after its name: which app, which database, for whom."""

from dataclasses import dataclass
from typing import Any

import click


@dataclass(slots=True)
class Given:
    app: str | None = None
    database: str | None = None
    as_json: bool = False


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    given = context.ensure_object(Given)
    if value:
        setattr(given, parameter.name or "", value)


def _options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--app"],
            metavar="MODULE:APP",
            help="The app whose tasks and database are meant, also as FILE.py:APP.  [env: MULLIGAN_APP]",
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


pass_given = click.make_pass_decorator(Given, ensure=True)
