"""`mulligan policies`: the retry policies in force, and the file that overrides them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from mulligan.cli.errors import WrongUsage
from mulligan.cli.opening import app_name, open_app
from mulligan.cli.options import Group, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_heading, print_json, print_table
from mulligan.cli.parameters import text
from mulligan.cli.reclassify import reclassify
from mulligan.errors import BadPolicies, ConfigurationError
from mulligan.explain.words import counted, end_sentence, quoted, times
from mulligan.failure.packs.installed import Pack
from mulligan.failure.packs.installed import packs as installed_packs
from mulligan.failure.policy import RetryPolicy, Row
from mulligan.failure.policy import schedule as delays_of
from mulligan.failure.rule import AnyRule, Rule, name_of
from mulligan.policies.file import PolicyFile, load
from mulligan.policies.in_force import InForce
from mulligan.policies.reading import Policies
from mulligan.policies.unknown_names import Names, UnknownNames, find_unknown_names
from mulligan.records.document import Document, document_of
from mulligan.task.task import Task
from mulligan.values.duration import describe
from mulligan.values.text import safe

OWNER = click.option("--owner", type=text, default="", help="The policy for the jobs of this owner.")


@click.group("policies", cls=Group, invoke_without_command=True)
@click.pass_context
def policies(context: click.Context) -> None:
    """Show and check retry policies, reclassify failures."""
    if context.invoked_subcommand is None:
        context.invoke(show, kind=None, owner="")


policies.add_command(reclassify)


@policies.command("check")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@pass_shared
def check(shared: SharedOptions, file: Path | None) -> None:
    """Check a policies file. By default the one in the settings; each mistake is printed with its path."""
    path, names = _find_file(shared, file)
    found, mistakes = Policies(), tuple[str, ...]()
    try:
        found = load(path)
    except BadPolicies as error:
        mistakes = error.mistakes
    unknown = None if names is None else find_unknown_names(found, names)
    if shared.as_json:
        document = {"file": str(path), "version": found.version, "mistakes": list(mistakes)}
        print_json(document | _unknown_document(unknown))
    elif not mistakes:
        echo(safe(f"{path} is valid: version {found.version}, {_size(found)}."))
        _print_unknown_names(unknown)
    else:
        for mistake in mistakes:
            click.echo(safe(f"{path}: {mistake}"), err=True)
    if mistakes:
        raise click.exceptions.Exit(WrongUsage.exit_code)


def _size(found: Policies) -> str:
    sizes = {"kind": found.all_kinds, "queue": found.queues, "service": found.services, "owner": found.owners}
    return ", ".join(counted(len(names), what) for what, names in sizes.items())


def _find_file(shared: SharedOptions, file: Path | None) -> tuple[Path, Names | None]:
    """The file to check, and the names of the app, if one is named."""
    if file is not None and app_name(shared) is None:
        return file, None
    with open_app(shared) as app:
        path = file or app.policies.path
        if path is None:
            raise ConfigurationError(
                "no policies file is configured: name it here, in MULLIGAN_POLICIES_FILE or App(policies=…)"
            )
        return path, app.names() if app.tasks else None


@policies.command("show")
@click.argument("kind", type=text, required=False)
@OWNER
@pass_shared
def show(shared: SharedOptions, kind: str | None, owner: str) -> None:
    """Show the policy in force. For each task or for one, with the sections of the policies file that set it."""
    with open_app(shared, needs_tasks=True) as app:
        tasks = [app.tasks[kind]] if kind else list(app.tasks.values())
        found = [(task, app.judge.in_force(task.name, owner)) for task in tasks]
        file, unknown = app.policies, find_unknown_names(app.policies.current, app.names())
    if shared.as_json:
        documents = [_document(task, standing) | {"owner": owner} for task, standing in found]
        print_json({"policies": documents, "file": _file_document(file, unknown)})
        return
    if not tasks:
        echo("This app has no tasks. Register one with @app.task")
    for task, standing in found:
        echo(click.style(safe(task.name), bold=True))
        for sentence in [*in_words(standing), *_sources(standing)]:
            echo(f"  {safe(sentence)}")
    _print_file(file, unknown)


def _sources(standing: InForce) -> list[str]:
    sections: dict[str, list[str]] = {}
    for key, section in standing.sources.items():
        sections.setdefault(section, []).append(key)
    return [f"Set by the policies file ({section}): {', '.join(keys)}." for section, keys in sections.items()]


def _print_file(file: PolicyFile, unknown: UnknownNames) -> None:
    if file.path is None:
        return
    echo()
    if file.problem is not None:
        echo(safe(f"The policies file is not in force: {file.problem}"))
        echo("Running workers keep the previous version.")
    else:
        echo(safe(f"Version {file.current.version} of {file.path} is in force."))
    for what, entries in _other_sections(file.current).items():
        for name, values in entries.items():
            echo(safe(f"It sets for {what.removesuffix('s')} {name}: {_settings(values)}."))
    _print_unknown_names(unknown)


def _other_sections(found: Policies) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    return {"queues": found.queues, "services": found.services, "owners": found.quotas}


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items()) or "nothing"


def _print_unknown_names(unknown: UnknownNames | None) -> None:
    for what, names in unknown or ():
        echo(safe(f"It names {what} that this app does not have: {', '.join(names)}."))


def _unknown_document(unknown: UnknownNames | None) -> Document:
    """Null if no app was named, so that names could not be compared."""
    kinds = ("kinds", "queues", "services")
    return {f"unknown_{what}": None if unknown is None else list(getattr(unknown, what)) for what in kinds}


def _file_document(file: PolicyFile, unknown: UnknownNames) -> Document | None:
    if file.path is None:
        return None
    mistakes = list(file.problem.mistakes) if file.problem else []
    document = {"path": str(file.path), "version": file.current.version, "mistakes": mistakes}
    return document | _other_sections(file.current) | _unknown_document(unknown)


@policies.command("schedule")
@click.argument("kind", type=text)
@OWNER
@pass_shared
def schedule(shared: SharedOptions, kind: str, owner: str) -> None:
    """Show when a job that keeps failing is retried."""
    with open_app(shared, needs_tasks=True) as app:
        task = app.tasks[kind]
        standing = app.judge.in_force(task.name, owner)
    rows = delays_of(standing.policy)
    if shared.as_json:
        version = standing.version
        print_json({"kind": task.name, "policies": version, "schedule": [document_of(row) for row in rows]})
        return
    echo(f"{safe(task.name)}, if it keeps failing:\n")
    headings = ("Failure", "Then", "After", "With jitter", "Waited in all")
    print_table(headings, _cut(rows))
    echo("\nA final failure ends it at once.")
    for sentence in [*_other_terms(standing.policy), *_sources(standing)]:
        echo(safe(sentence))


@policies.command("packs")
@pass_shared
def packs(shared: SharedOptions) -> None:
    """List the packs of rules. They are tried after the rules of the task and of the app."""
    if shared.as_json:
        print_json({"packs": [_pack_document(pack) for pack in installed_packs()]})
        return
    for pack in installed_packs():
        print_heading(safe(f"{pack.name}, from {pack.source}"))
        if pack.problem is None:
            rules = [_rule_document(rule) for rule in pack.rules]
            rows = [(rule["name"], rule["code"], rule["class"], rule["when"]) for rule in rules]
            print_table(("Rule", "Code", "Class", "When"), rows)
        else:
            echo(safe(f"Not loaded: {pack.problem}"))


def _pack_document(pack: Pack) -> Document:
    return document_of(pack) | {"rules": [_rule_document(rule) for rule in pack.rules]}


def _rule_document(rule: AnyRule) -> dict[str, str]:
    """A function returns its code and class only when it is called."""
    if not isinstance(rule, Rule):
        return {"name": name_of(rule), "code": "", "class": "", "when": "decided by the function", "line": ""}
    document = {"name": rule.name, "code": rule.code, "class": str(rule.error_class)}
    return document | {"when": rule.describe(), "line": rule.line}


def in_words(standing: InForce) -> Iterator[str]:
    policy = standing.policy
    yield f"It is tried at most {times(policy.max_attempts)}."
    if policy.max_attempts > 1:
        yield f"Between attempts it waits {_backoff(policy)}."
    yield from _other_terms(policy)
    yield f"An attempt may take {describe(standing.timeout)}."
    yield _ends(standing)
    for rule in standing.rules:
        line = f", {quoted(rule.line)}" if rule.line else ""
        yield end_sentence(f"Rule {rule.name} is tried before those of the code: {rule.code}, {rule.error_class}{line}")


def _ends(standing: InForce) -> str:
    crashes, snoozes = standing.policy.max_crashes, standing.policy.max_snoozes
    if standing.at_most_once:
        return "It runs at most once: once started, it fails if its worker is lost, its process dies or it is snoozed."
    return f"It fails at crash {crashes:,} in a row, or if it is snoozed more than {snoozes:,} times."


def _backoff(policy: RetryPolicy) -> str:
    described = getattr(policy.backoff, "describe", None)
    if callable(described):
        return str(described())
    return f"as {getattr(policy.backoff, '__name__', type(policy.backoff).__name__)}() returns"


def _other_terms(policy: RetryPolicy) -> Iterator[str]:
    """The terms of a policy that its delays do not show."""
    for code, limit in policy.limits.items():
        yield f"{code} is never retried." if limit == 0 else f"{code} is retried at most {times(limit)}."
    if policy.deadline is not None:
        yield f"It must be done within {describe(policy.deadline)} of its enqueue."
    for window in policy.windows:
        yield f"Retries run {window.describe()}."


def _cut(rows: list[Row]) -> list[tuple[str, ...]]:
    """The rows as cells, with a row of dots where many were left out."""
    *before, last = [_cells(row) for row in rows]
    is_whole = rows[-1].failure == len(rows)
    return [*before, last] if is_whole else [*before, ("…", "", "", "", ""), last]


def _cells(row: Row) -> tuple[str, ...]:
    delay = "" if row.delay is None else describe(row.delay)
    return f"{row.failure:,}", row.then, delay, _range(row), describe(row.elapsed)


def _range(row: Row) -> str:
    if row.shortest is None or row.longest is None or row.shortest == row.longest:
        return ""
    return f"{describe(row.shortest)} to {describe(row.longest)}"


def _document(task: Task[..., Any, Any], standing: InForce) -> Document:
    policy = standing.policy
    return document_of(policy) | {
        "kind": task.name,
        "aliases": list(task.aliases),
        "queue": task.queue,
        "priority": task.priority,
        "timeout": standing.timeout.total_seconds(),
        "max_retries": policy.max_attempts - 1,
        "backoff": _backoff(policy),
        "windows": [window.describe() for window in policy.windows],
        "rules": [_rule_document(rule) for rule in standing.rules],
        "sources": dict(standing.sources),
        "version": standing.version,
        "in_words": list(in_words(standing)),
    }
