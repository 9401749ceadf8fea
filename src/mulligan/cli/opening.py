"""Which app and which database a command works with."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from mulligan.cli.loading import load_app
from mulligan.cli.options import Given
from mulligan.errors import ConfigurationError, MulliganError, StoreUnavailable, without_password

if TYPE_CHECKING:
    from mulligan.app import App

EMPTY = "sqlite:///:memory:"


@contextmanager
def opened(given: Given) -> Iterator["App"]:
    """The app named, or one without tasks; a database that is not there yet is made."""
    app = _app(given)
    settings = app.settings
    try:
        if given.database:
            app.close()
            app.settings = replace(settings, database_url=given.database)
        yield app
    finally:
        app.close()
        # The app is its module's; who imports that module later finds it as it was.
        app.settings = settings


@contextmanager
def opened_with_tasks(given: Given) -> Iterator["App"]:
    """The app named; without one there is nothing to do."""
    _require_app(given)
    with opened(given) as app:
        yield app


@contextmanager
def opened_existing_with_tasks(given: Given) -> Iterator["App"]:
    """The app named, on a database that is there."""
    _require_app(given)
    with opened_existing(given) as app:
        yield app


def _require_app(given: Given) -> None:
    if not named(given):
        raise ConfigurationError("this needs an app: name it with --app MODULE:APP or MULLIGAN_APP")


@contextmanager
def opened_existing(given: Given) -> Iterator["App"]:
    """A database that is there. That of an app not used yet is empty, and looking does not make it."""
    with opened(given) as app:
        if not app.has_database:
            if given.database or not named(given):
                raise _no_database(given, app)
            app.settings = replace(app.settings, database_url=EMPTY)
        yield app


@contextmanager
def opened_for_watching(given: Given) -> Iterator["App"]:
    """A database that is there: what is made later would not be seen."""
    with opened(given) as app:
        if not app.has_database:
            raise _no_database(given, app)
        yield app


def _app(given: Given) -> "App":
    from mulligan.app import App
    from mulligan.settings import load

    name = named(given)
    return load_app(name) if name else App(settings=load())


def named(given: Given) -> str | None:
    """The app, if one is named: here, in the environment or in the settings."""
    from mulligan.settings import load

    return given.app or load().app


def _no_database(given: Given, app: "App") -> MulliganError:
    from mulligan.settings import Settings

    url = app.settings.database_url
    missing = (
        f"there is no database {without_password(url)}; "
        "name one with --database URL or --app MODULE:APP, or make this one with: mulligan migrate"
    )
    if given.database or named(given) or url != Settings().database_url:
        return StoreUnavailable(missing)
    return ConfigurationError(f"no app and no database is named, and {missing}")
