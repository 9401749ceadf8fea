"""`mulligan doctor`: what is well, what is not, and what mends it."""

from typing import TYPE_CHECKING

import click

from mulligan.cli.errors import NotNow
from mulligan.cli.opening import opened
from mulligan.cli.options import CliCommand, Given, pass_given
from mulligan.cli.output import say, say_json
from mulligan.console.documents import document_of
from mulligan.explain.words import counted
from mulligan.records.finding import Level
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.records.finding import Finding

COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}
WIDTH = max(map(len, Level))


@click.command("doctor", cls=CliCommand)
@pass_given
def doctor(given: Given) -> None:
    """Say what is wrong and what mends it. Looks at the store, the workers and the jobs, and changes nothing.

    Ends with 5 if there is a problem; warnings alone end with 0.
    """
    with opened(given) as app:
        findings = app.doctor()
    problems, warnings = (_of(findings, level) for level in (Level.PROBLEM, Level.WARNING))
    if given.as_json:
        said = [document_of(finding) for finding in findings]
        say_json({"findings": said, "problems": len(problems), "warnings": len(warnings)})
    else:
        for finding in [*problems, *warnings, *_of(findings, Level.OK)]:
            _say(finding)
        say(f"\n{counted(len(problems), 'problem')}, {counted(len(warnings), 'warning')}.")
    if problems:
        raise click.exceptions.Exit(NotNow.exit_code)


def _of(findings: "list[Finding]", level: Level) -> "list[Finding]":
    return [finding for finding in findings if finding.level is level]


def _say(finding: "Finding") -> None:
    level = click.style(f"{finding.level:<{WIDTH}}", fg=COLOURS[finding.level])
    say(f"{level}  {finding.code}: {safe(finding.found)}")
    if finding.remedy:
        say(f"{'':<{WIDTH}}  → {safe(finding.remedy)}")
