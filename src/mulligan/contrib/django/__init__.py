"""The app of a Django project, built from its settings: `from mulligan.contrib.django import app`.

Add `"mulligan.contrib.django"` to INSTALLED_APPS. The `tasks` module of each installed app is imported automatically.
`MULLIGAN = {…}` in the settings is passed to `App(…)`; without a `url`, the default database is used.
"""

from collections.abc import Iterator

import django
from django.apps import apps
from django.db import close_old_connections

from mulligan.attempt import Attempt
from mulligan.contrib.django.configured import create_app

__all__ = ["app"]

app = create_app()


@app.around
def _fresh_connections(attempt: Attempt) -> Iterator[None]:
    """Close connections that are broken or too old before and after each attempt, as Django does for a request."""
    if not attempt.may_block:
        # Async tasks use connections in threads of Django, not on the event loop.
        yield
        return
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


# A child process and the `mulligan` command import this module before Django is set up.
if not apps.loading:
    django.setup()
