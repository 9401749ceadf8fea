"""The options of several commands, each declared once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.parameters import login, text, when
from mulligan.failure.error_codes import ErrorClass
from mulligan.lifecycle import State
from mulligan.records.job import JobFilter

if TYPE_CHECKING:
    # `mulligan --help` does without the engine.
    from mulligan.app import App

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]


@dataclass(slots=True)
class SharedOptions:
    """The options of every command, before or after its name: app, database or server, output format."""

    app: str | None = None
    database: str | None = None
    server: str | None = None
    key: str | None = field(default=None, repr=False)
    as_json: bool = False
    reveal: bool = False


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    shared = context.ensure_object(SharedOptions)
    if value:
        setattr(shared, parameter.name or "", value)


_shared = partial(click.Option, expose_value=False, callback=_keep)
SHARED = (
    _shared(
        ["--app"],
        metavar="MODULE:APP",
        help="The app to use, with its tasks and its database; also FILE.py:APP.  [env: MULLIGAN_APP]",
    ),
    _shared(
        ["--database"],
        metavar="URL",
        help="The database, such as sqlite:///jobs.db.  [env: MULLIGAN_DATABASE_URL]",
    ),
    _shared(
        ["--server"],
        metavar="URL",
        help="A server to use instead of a database, such as https://jobs.example.org.  [env: MULLIGAN_SERVER]",
    ),
    _shared(
        ["--key"],
        metavar="KEY",
        help="The key for the server. Other users of this machine can read command lines.  [env: MULLIGAN_KEY]",
    ),
    _shared(
        ["--json", "as_json"],
        is_flag=True,
        help='For programs: JSON on stdout, an error as {"error": {"type", "message"}} on stderr.',
    ),
)


reveal_option = click.option(
    "--reveal",
    is_flag=True,
    expose_value=False,
    callback=_keep,
    help="With a server: show secrets in arguments and results. It needs the scope args:reveal and is audited.",
)


class CliCommand(click.Command):
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += SHARED


class Group(CliCommand, click.Group):
    command_class = CliCommand


pass_shared = click.make_pass_decorator(SharedOptions, ensure=True)


def without_subcommand(function: Function) -> Function:
    """The function of a group is called only if no subcommand is named."""

    @click.pass_context
    @wraps(function)
    def call(context: click.Context, /, **options: Any) -> None:
        if context.invoked_subcommand is None:
            function(context.ensure_object(SharedOptions), **options)

    return call


def together(*options: Decorator) -> Decorator:
    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def one_argument(name: str, metavar: str) -> Decorator:
    return click.argument(name, metavar=metavar, type=text)


def limit_option(default: int, *, most: int = 1_000) -> Decorator:
    return click.option("--limit", type=click.IntRange(1, most), default=default, show_default=True)


ACTOR = click.option("--actor", type=text, default=login, help="Who; stored too.  [default: your login name]")


REQUEST_ID = click.option(
    "--request-id", type=text, help="Your own id: the same command with it is carried out once and answered again."
)


def signed(where: str = "the log") -> Decorator:
    """Add --reason and --actor, which are stored in `where`, and --request-id."""
    return together(click.option("--reason", type=text, help=f"Why; stored in {where}."), ACTOR, REQUEST_ID)


KIND = click.option("--kind", type=text, help="The task's name.")
OWNER = click.option("--owner", type=text)
SINCE = click.option("--since", type=when, help="Enqueued since: a time, or a duration such as 2h.")


def _several(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    """None if the option is not given: an empty list would match nothing."""
    return value or None


# One for each field of JobFilter, passed as keyword arguments.
filter_options = together(
    click.option(
        "--id", "ids", type=text, multiple=True, callback=_several, help="The id of a job; may be given several times."
    ),
    click.option(
        "--state",
        type=click.Choice([str(state) for state in State]),
        multiple=True,
        callback=_several,
        help="May be given several times.",
    ),
    KIND,
    OWNER,
    click.option("--queue", type=text),
    click.option("--service", type=text),
    click.option("--worker", type=text, help="The worker that runs the job now."),
    click.option("--code", type=text, help="The error code of failed jobs."),
    click.option(
        "--class",
        "error_class",
        type=click.Choice([str(each) for each in ErrorClass]),
        help="The error class of failed jobs.",
    ),
    click.option("--last-code", type=text, help="The error code of the last failed attempt, in any state."),
    click.option("--group", type=text, help="The error group of failed jobs, or six characters of its beginning."),
    click.option("--batch", type=text, help="The id of the batch, or six characters of its end."),
    click.option("--tag", type=text),
    click.option("--version", type=text, help="The version of the app that ran the last attempt."),
    SINCE,
    click.option("--until", type=when, help="Enqueued before: a time, or a duration such as 2h."),
    click.option("--finished-since", type=when, help="Over since: a time, or a duration such as 2h."),
)


def job_filter(app: "App", wanted: Mapping[str, Any]) -> JobFilter:
    """The filter of these options. The ids of jobs, of a batch and of a group may be shortened."""
    ids = wanted.get("ids")
    whole = {"ids": ids and [app.find_id("job", each) for each in ids]}
    return JobFilter(**complete_ids(app, {**wanted, **whole}, "batch", "group"))


def complete_ids(app: "App", options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The options, of which these are ids that may be shortened. An option is named for what its id is of."""
    return {**options, **{name: app.find_id(name, options[name]) for name in names if options.get(name)}}
