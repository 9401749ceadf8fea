"""`python manage.py mulligan_worker`: run jobs until SIGTERM or Ctrl-C."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from mulligan.cli.root import root


class Command(BaseCommand):
    help = "Run jobs until SIGTERM or Ctrl-C. Running jobs finish first; a second signal releases them."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--concurrency", help="Jobs at a time.")
        parser.add_argument("--queues", help="Take jobs of these queues only, separated by commas.")

        parser.add_argument(
            "--reload", action="store_true", help="For development: restart when a source file changes."
        )

    def handle(self, *_: Any, concurrency: str | None, queues: str | None, reload: bool = False, **__: Any) -> None:
        given = {"--concurrency": concurrency, "--queues": queues}
        options = [word for name, value in given.items() if value is not None for word in (name, value)]
        options += ["--reload"] if reload else []
        root(["worker", "mulligan.contrib.django:app", *options], prog_name="manage.py mulligan")
