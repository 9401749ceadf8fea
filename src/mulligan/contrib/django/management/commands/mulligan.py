"""`python manage.py mulligan …`: the mulligan command with the app of this project."""

from argparse import REMAINDER, ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from mulligan.cli.root import root


class Command(BaseCommand):
    help = "Run the mulligan command with the jobs of this project."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("words", nargs=REMAINDER, metavar="…", help="e.g. 'jobs list', or '-- --help'")

    def handle(self, *_: Any, words: list[str], **__: Any) -> None:
        root(["--app", "mulligan.contrib.django:app", *words], prog_name="manage.py mulligan")
