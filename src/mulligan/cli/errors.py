"""Errors of commands: one line on stderr, and a documented exit code."""

import json
from typing import IO, Any

import click

from mulligan.cli.options import SharedOptions
from mulligan.errors import (
    BatchNotFound,
    ConfigurationError,
    DeliveryNotFound,
    GroupNotFound,
    HookNotFound,
    JobNotFound,
    KeyNotFound,
    RedriveNotFound,
    SubscriptionNotFound,
    UnknownCheck,
    UnknownDuty,
    UnknownIntake,
    UnknownKind,
    UnknownProjection,
    UnknownQueue,
    UnknownSchedule,
    UnknownService,
)
from mulligan.values.text import safe


class CommandFailed(click.ClickException):
    def __init__(self, kind: str, message: str, shared: SharedOptions) -> None:
        super().__init__(message)
        self.kind = kind
        self.as_json = shared.as_json

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002
        if self.as_json:
            click.echo(json.dumps({"error": {"type": self.kind, "message": self.message}}), err=True)
        else:
            click.echo(f"Error: {safe(self.message)}", err=True)


class WrongUsage(CommandFailed):
    exit_code = 2


class NotFound(CommandFailed):
    exit_code = 4


class NotNow(CommandFailed):
    exit_code = 5


def command_error(error: Exception, shared: SharedOptions) -> CommandFailed:
    return _ending(error)(type(error).__name__, str(error), shared)


def _ending(error: Exception) -> type[CommandFailed]:
    match error:
        case JobNotFound() | BatchNotFound() | RedriveNotFound() | UnknownKind() | UnknownDuty() | UnknownSchedule():
            return NotFound
        case (
            KeyNotFound()
            | GroupNotFound()
            | UnknownCheck()
            | UnknownService()
            | UnknownQueue()
            | UnknownIntake()
            | UnknownProjection()
        ):
            return NotFound
        case SubscriptionNotFound() | DeliveryNotFound() | HookNotFound():
            return NotFound
        case ConfigurationError() | ValueError():
            return WrongUsage
        case _:
            return NotNow
