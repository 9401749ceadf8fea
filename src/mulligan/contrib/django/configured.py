"""Create the App from the settings of Django."""

from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from mulligan.app import App


def create_app() -> App:
    options = getattr(settings, "MULLIGAN", {})
    if not isinstance(options, dict):
        raise ImproperlyConfigured(f"MULLIGAN must be a dictionary of options for App(…), not {options!r:.200}")
    url = options.get("url") or url_of(settings.DATABASES.get("default", {}))
    try:
        return App(**{**options, "url": url})
    except TypeError as error:
        raise ImproperlyConfigured(f"MULLIGAN has an option that App(…) does not take: {error}") from error


def url_of(database: dict[str, Any]) -> str:
    """The URL of the same database, so that jobs can be part of the transactions of Django."""
    engine = database.get("ENGINE", "")
    if engine.endswith("sqlite3"):
        return f"sqlite:///{database['NAME']}"
    if not engine.endswith(("postgresql", "postgis")):
        raise ImproperlyConfigured(
            f"jobs cannot be stored in a database of {engine or 'no engine'}: set MULLIGAN = {{'url': …}} to "
            "'sqlite:///…' or 'postgresql://…'"
        )
    user, password, host, port = (str(database.get(name) or "") for name in ("USER", "PASSWORD", "HOST", "PORT"))
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    address = quote(host, safe="") + (f":{port}" if port else "")
    return f"postgresql://{login}{'@' if login else ''}{address}/{quote(str(database.get('NAME') or ''), safe='')}"
