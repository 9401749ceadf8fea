"""How a command says that it could not do it: one line on stderr, and the exit code of the contract."""

import json
from typing import IO, Any

import click

from mulligan.cli.options import Given
from mulligan.errors import (
    BatchNotFound,
    ConfigurationError,
    JobNotFound,
    RedriveNotFound,
    UnknownDuty,
    UnknownKind,
    UnknownQueue,
    UnknownSchedule,
    UnknownService,
)
from mulligan.values.text import safe


class CommandInterrupted(click.ClickException):
    def __init__(self, kind: str, message: str, given: Given) -> None:
        super().__init__(message)
        self.kind = kind
        self.as_json = given.as_json

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002
        if self.as_json:
            click.echo(json.dumps({"error": {"type": self.kind, "message": self.message}}), err=True)
        else:
            click.echo(f"Error: {safe(self.message)}", err=True)


class WrongUsage(CommandInterrupted):
    exit_code = 2


class NotFound(CommandInterrupted):
    exit_code = 4


class NotNow(CommandInterrupted):
    exit_code = 5


def stopped(error: Exception, given: Given) -> CommandInterrupted:
    return _ending(error)(type(error).__name__, str(error), given)


def _ending(error: Exception) -> type[CommandInterrupted]:
    match error:
        case JobNotFound() | BatchNotFound() | RedriveNotFound() | UnknownKind() | UnknownDuty() | UnknownSchedule():
            return NotFound
        case UnknownService() | UnknownQueue():
            return NotFound
        case ConfigurationError() | ValueError():
            return WrongUsage
        case _:
            return NotNow
