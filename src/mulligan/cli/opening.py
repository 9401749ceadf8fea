"""Open the app and the database, or the server, that a command works with."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from mulligan.app import App
from mulligan.cli.loading import load_app
from mulligan.cli.options import SharedOptions
from mulligan.errors import ConfigurationError, MulliganError, StoreUnavailable, without_password
from mulligan.settings import Settings, load

EMPTY = "sqlite:///:memory:"
NOT_BY_SERVER = (
    "this command needs the database and cannot use a server: "
    "leave out --server and MULLIGAN_SERVER, or name the database with --database URL or --app MODULE:APP"
)


@contextmanager
def open_app(shared: SharedOptions, *, needs_tasks: bool = False) -> Iterator[App]:
    """Open the named app, or one without tasks unless they are needed. A missing database is created."""
    if find_server(shared):
        raise ConfigurationError(NOT_BY_SERVER)
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


@contextmanager
def open_either(shared: SharedOptions, *, watches: bool = False, needs_tasks: bool = False) -> Iterator[Any]:
    """Open the server if one is named, else the existing database. Both have the same verbs."""
    if server := find_server(shared):
        from mulligan.client import Client

        key = shared.key or os.environ.get("MULLIGAN_KEY")
        with Client(server, key=key, reveal=shared.reveal) as client:
            yield client
        return
    with open_for_watching(shared) if watches else open_existing(shared, needs_tasks=needs_tasks) as app:
        yield app


def find_server(shared: SharedOptions) -> str | None:
    """The server, from the command line or the environment. What the command line names comes first."""
    if shared.server and (shared.database or shared.app):
        raise ConfigurationError("name either a server or a database: --server cannot be used with --database or --app")
    if shared.database or shared.app:
        return None
    return shared.server or os.environ.get("MULLIGAN_SERVER") or None


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
