"""The app of a Django project, made of its settings: `from mulligan.contrib.django import app`.

Put `"mulligan.contrib.django"` into INSTALLED_APPS. Tasks in the `tasks` module of each installed app are found by
themselves. `MULLIGAN = {…}` in the settings is handed to `App(…)`; without a `url` the default database is used.
"""

from collections.abc import Iterator

import django
from django.apps import apps
from django.db import close_old_connections

from mulligan.attempt import Attempt
from mulligan.contrib.django.configured import app_of_settings

__all__ = ["app"]

app = app_of_settings()


@app.around
def _fresh_connections(attempt: Attempt) -> Iterator[None]:
    """As for a request: a connection that has died or is too old is not used for another attempt."""
    if not attempt.may_block:
        # On the loop there are none of ours; what an async task does goes through threads of Django's.
        yield
        return
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


# A child process, or the `mulligan` command, comes here first.
if not apps.loading:
    django.setup()
