"""`mulligan policies`: the retry policies in force, and the file that overrides them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mulligan.cli.errors import WrongUsage
from mulligan.cli.opening import app_name, open_app
from mulligan.cli.options import Group, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_heading, print_json, print_table
from mulligan.cli.parameters import text
from mulligan.cli.reclassify import reclassify
from mulligan.console.policies import PolicyFileStatus, other_terms, rule_status
from mulligan.errors import BadPolicies, ConfigurationError
from mulligan.explain.words import counted
from mulligan.failure.packs.installed import Pack
from mulligan.failure.packs.installed import packs as installed_packs
from mulligan.failure.policy import Row
from mulligan.failure.policy import schedule as delays_of
from mulligan.policies.file import load
from mulligan.policies.reading import Policies
from mulligan.policies.unknown_names import Names, UnknownNames, find_unknown_names
from mulligan.records.document import Document, document_of
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
        found = app.policies_in_force(kind, of_owner=owner)
    if shared.as_json:
        print_json(document_of(found))
        return
    if not found.policies:
        echo("This app has no tasks. Register one with @app.task")
    for policy in found.policies:
        echo(click.style(safe(policy.kind), bold=True))
        for sentence in [*policy.in_words, *_sources(policy.sources)]:
            echo(f"  {safe(sentence)}")
    _print_file(found.file)


def _sources(sources: Mapping[str, str]) -> list[str]:
    sections: dict[str, list[str]] = {}
    for key, section in sources.items():
        sections.setdefault(section, []).append(key)
    return [f"Set by the policies file ({section}): {', '.join(keys)}." for section, keys in sections.items()]


def _print_file(file: PolicyFileStatus | None) -> None:
    if file is None:
        return
    echo()
    if file.mistakes:
        echo(safe(f"The policies file is not in force: {BadPolicies(file.path, file.mistakes)}"))
        echo("Running workers keep the previous version.")
    else:
        echo(safe(f"Version {file.version} of {file.path} is in force."))
    for what, entries in (("queue", file.queues), ("service", file.services), ("owner", file.owners)):
        for name, values in entries.items():
            echo(safe(f"It sets for {what} {name}: {_settings(values)}."))
    _print_unknown_names(UnknownNames(file.unknown_kinds, file.unknown_queues, file.unknown_services))


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items()) or "nothing"


def _print_unknown_names(unknown: UnknownNames | None) -> None:
    for what, names in unknown or ():
        echo(safe(f"It names {what} that this app does not have: {', '.join(names)}."))


def _unknown_document(unknown: UnknownNames | None) -> Document:
    """Null if no app was named, so that names could not be compared."""
    kinds = ("kinds", "queues", "services")
    return {f"unknown_{what}": None if unknown is None else list(getattr(unknown, what)) for what in kinds}


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
    for sentence in [*other_terms(standing.policy), *_sources(standing.sources)]:
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
            rules = [rule_status(rule) for rule in pack.rules]
            rows = [(rule.name, rule.code, rule.error_class, rule.when) for rule in rules]
            print_table(("Rule", "Code", "Class", "When"), rows)
        else:
            echo(safe(f"Not loaded: {pack.problem}"))


def _pack_document(pack: Pack) -> Document:
    return document_of(pack) | {"rules": [document_of(rule_status(rule)) for rule in pack.rules]}


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
