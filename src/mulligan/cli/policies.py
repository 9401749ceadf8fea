"""`mulligan policies`: how often, how soon and when the tasks of an app are tried again."""

from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.documents import document_of
from mulligan.cli.given import Given, Group, pass_given
from mulligan.cli.parameters import text
from mulligan.cli.place import opened_with_tasks
from mulligan.cli.safe import safe
from mulligan.cli.screen import say, say_heading, say_json, say_table
from mulligan.duration import describe
from mulligan.explain.words import times

if TYPE_CHECKING:
    from mulligan.failure.policy import RetryPolicy, Row
    from mulligan.failure.rule import AnyRule
    from mulligan.packs import Pack
    from mulligan.task import Task


@click.group("policies", cls=Group, invoke_without_command=True)
@click.pass_context
def policies(context: click.Context) -> None:
    """Read the retry policies of an app's tasks, and the rules that all share."""
    if context.invoked_subcommand is None:
        context.invoke(show, kind=None)


@policies.command("show")
@click.argument("kind", type=text, required=False)
@pass_given
def show(given: Given, kind: str | None) -> None:
    """Say in words what the policy of each task is, or of one."""
    with opened_with_tasks(given) as app:
        tasks = [app.tasks[kind]] if kind else [app.tasks[name] for name in app.tasks]
    if given.as_json:
        say_json({"policies": [_document(task) for task in tasks]})
        return
    if not tasks:
        say("This app has no tasks. Register one with @app.task")
    for task in tasks:
        say(click.style(safe(task.name), bold=True))
        for sentence in in_words(task):
            say(f"  {safe(sentence)}")


@policies.command("schedule")
@click.argument("kind", type=text)
@pass_given
def schedule(given: Given, kind: str) -> None:
    """Print attempt by attempt what would happen to a job that keeps failing."""
    from mulligan.failure.policy import schedule as rows_of

    with opened_with_tasks(given) as app:
        task = app.tasks[kind]
    rows = rows_of(task.retry)
    if given.as_json:
        say_json({"kind": task.name, "schedule": [document_of(row) for row in rows]})
        return
    say(f"{safe(task.name)}, when it keeps failing:\n")
    headings = ("Failure", "Then", "After", "By chance between", "Waited in all")
    say_table(headings, _cut(rows))
    say("\nA failure that is final ends it at once.")
    for sentence in _besides(task.retry):
        say(safe(sentence))


@policies.command("packs")
@pass_given
def packs(given: Given) -> None:
    """List the packs of rules that are asked after those of the task and of the app, and their rules."""
    from mulligan.packs import packs as found

    if given.as_json:
        say_json({"packs": [_pack_document(pack) for pack in found()]})
        return
    for pack in found():
        say_heading(safe(f"{pack.name}, from {pack.source}"))
        if pack.problem is None:
            say_table(("Rule", "Code", "Class", "When"), [tuple(_rule_document(rule).values()) for rule in pack.rules])
        else:
            say(safe(f"It is left out: {pack.problem}"))


def _pack_document(pack: "Pack") -> dict[str, Any]:
    return document_of(pack) | {"rules": [_rule_document(rule) for rule in pack.rules]}


def _rule_document(rule: "AnyRule") -> dict[str, str]:
    """A function says its code and class only when it is asked."""
    from mulligan.failure.rule import Rule, name_of

    if not isinstance(rule, Rule):
        return {"name": name_of(rule), "code": "", "class": "", "when": "as the function says"}
    return {"name": rule.name, "code": rule.code, "class": str(rule.error_class), "when": rule.describe()}


def in_words(task: "Task[..., Any, Any]") -> list[str]:
    policy = task.retry
    is_retried = policy.max_attempts > 1
    return [
        f"It is tried {times(policy.max_attempts)}" + (" at most." if is_retried else " only."),
        *([f"Between tries it waits {_backoff(policy)}."] if is_retried else []),
        *_besides(policy),
        f"An attempt may take {describe(task.timeout)}.",
        f"It fails at crash {policy.max_crashes:,} in a row, or when put off more than {policy.max_snoozes:,} times.",
    ]


def _backoff(policy: "RetryPolicy") -> str:
    described = getattr(policy.backoff, "describe", None)
    if callable(described):
        return str(described())
    return f"as {getattr(policy.backoff, '__name__', type(policy.backoff).__name__)}() says"


def _besides(policy: "RetryPolicy") -> list[str]:
    """What the delays do not show."""
    said = [
        f"{code} is never retried." if limit == 0 else f"{code} is retried {times(limit)} at most."
        for code, limit in policy.limits.items()
    ]
    if policy.deadline is not None:
        said.append(f"It must be done within {describe(policy.deadline)} of its enqueue.")
    return said + [f"Retries run {window.describe()}." for window in policy.windows]


def _cut(rows: "list[Row]") -> list[tuple[str, ...]]:
    """The rows as cells; where many were left out before the last, a line says so."""
    *before, last = [_cells(row) for row in rows]
    is_whole = rows[-1].failure == len(rows)
    return [*before, last] if is_whole else [*before, ("…", "", "", "", ""), last]


def _cells(row: "Row") -> tuple[str, ...]:
    if row.delay is None:
        return f"{row.failure:,}", row.then, "", "", describe(row.elapsed)
    return f"{row.failure:,}", row.then, describe(row.delay), _range(row), describe(row.elapsed)


def _range(row: "Row") -> str:
    if row.shortest is None or row.longest is None or row.shortest == row.longest:
        return ""
    return f"{describe(row.shortest)} and {describe(row.longest)}"


def _document(task: "Task[..., Any, Any]") -> dict[str, Any]:
    policy = task.retry
    return document_of(policy) | {
        "kind": task.name,
        "aliases": list(task.aliases),
        "queue": task.queue,
        "priority": task.priority,
        "timeout": task.timeout.total_seconds(),
        "max_retries": policy.max_attempts - 1,
        "backoff": _backoff(policy),
        "windows": [window.describe() for window in policy.windows],
        "in_words": in_words(task),
    }
