"""Open the app and the database that a command works with."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from mulligan.app import App
from mulligan.cli.loading import load_app
from mulligan.cli.options import SharedOptions
from mulligan.errors import ConfigurationError, MulliganError, StoreUnavailable, without_password
from mulligan.settings import Settings, load

EMPTY = "sqlite:///:memory:"


@contextmanager
def open_app(shared: SharedOptions, *, needs_tasks: bool = False) -> Iterator[App]:
    """Open the named app, or one without tasks unless they are needed. A missing database is created."""
    name = app_name(shared)
    if needs_tasks and not name:
        raise ConfigurationError("this needs an app: name it with --app MODULE:APP or MULLIGAN_APP")
    app = load_app(name) if name else App(settings=load())
    settings = app.settings
    try:
        if shared.database:
            app.close()
            app.settings = replace(settings, database_url=shared.database)
        yield app
    finally:
        app.close()
        # The app belongs to its module, so restore it.
        app.settings = settings


@contextmanager
def open_existing(shared: SharedOptions, *, needs_tasks: bool = False) -> Iterator[App]:
    """Open an existing database. If the app has none yet, it appears empty and is not created."""
    with open_app(shared, needs_tasks=needs_tasks) as app:
        if not app.has_database:
            if shared.database or not app_name(shared):
                raise _no_database(shared, app)
            app.settings = replace(app.settings, database_url=EMPTY)
        yield app


@contextmanager
def open_for_watching(shared: SharedOptions) -> Iterator[App]:
    """Open an existing database; raise if there is none, because one created later would not be watched."""
    with open_app(shared) as app:
        if not app.has_database:
            raise _no_database(shared, app)
        yield app


def app_name(shared: SharedOptions) -> str | None:
    """The name of the app, from the command line, the environment or the settings."""
    return shared.app or load().app


def _no_database(shared: SharedOptions, app: App) -> MulliganError:
    url = app.settings.database_url
    missing = (
        f"there is no database {without_password(url)}; "
        "name one with --database URL or --app MODULE:APP, or create this one with: mulligan migrate"
    )
    if shared.database or app_name(shared) or url != Settings().database_url:
        return StoreUnavailable(missing)
    return ConfigurationError(f"neither an app nor a database is named, and {missing}")
