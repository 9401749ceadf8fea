"""`mulligan doctor`: examine the store, the workers and the jobs."""

from collections.abc import Sequence

import click

from mulligan.cli.errors import NotNow
from mulligan.cli.opening import open_app
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json
from mulligan.explain.words import counted
from mulligan.records.document import document_of
from mulligan.records.finding import Finding, Level
from mulligan.records.readiness import Component
from mulligan.values.text import safe

COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}
WIDTH = max(map(len, Level))


@click.command("doctor", cls=CliCommand)
@click.option("--quick", is_flag=True, help="Only the components that GET /readyz shows.")
@pass_shared
def doctor(shared: SharedOptions, *, quick: bool) -> None:
    """Report what is wrong, with the remedy. Examines the store, the workers and the jobs, and changes nothing.

    The exit code is 5 if there is a problem; warnings alone leave it at 0.
    """
    with open_app(shared) as app:
        findings: list[Finding] | list[Component] = app.readiness() if quick else app.doctor()
    problems, warnings = (_of(findings, level) for level in (Level.PROBLEM, Level.WARNING))
    if shared.as_json:
        documents = [document_of(finding) for finding in findings]
        listed = {"components" if quick else "findings": documents}
        print_json({**listed, "problems": len(problems), "warnings": len(warnings)})
    else:
        for finding in [*problems, *warnings, *_of(findings, Level.OK)]:
            _print_finding(finding)
        echo(f"\n{counted(len(problems), 'problem')}, {counted(len(warnings), 'warning')}.")
    if problems:
        raise click.exceptions.Exit(NotNow.exit_code)


def _of(findings: Sequence[Finding | Component], level: Level) -> list[Finding | Component]:
    return [finding for finding in findings if finding.level is level]


def _print_finding(finding: Finding | Component) -> None:
    level = click.style(f"{finding.level:<{WIDTH}}", fg=COLOURS[finding.level])
    name = finding.name if isinstance(finding, Component) else finding.code
    echo(f"{level}  {name}: {safe(finding.found)}")
    if finding.remedy:
        echo(f"{'':<{WIDTH}}  → {safe(finding.remedy)}")
