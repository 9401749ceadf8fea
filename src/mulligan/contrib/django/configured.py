"""Django's settings as an App."""

from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from mulligan.app import App


def app_of_settings() -> App:
    options = getattr(settings, "MULLIGAN", {})
    if not isinstance(options, dict):
        raise ImproperlyConfigured(f"MULLIGAN must be a dictionary of what App(…) takes, not {options!r:.200}")
    url = options.get("url") or url_of(settings.DATABASES.get("default", {}))
    try:
        return App(**{**options, "url": url})
    except TypeError as error:
        raise ImproperlyConfigured(f"MULLIGAN holds what App(…) does not take: {error}") from error


def url_of(database: dict[str, Any]) -> str:
    """The same database as a URL; jobs can then be part of Django's own transactions."""
    engine = database.get("ENGINE", "")
    if engine.endswith("sqlite3"):
        return f"sqlite:///{database['NAME']}"
    if not engine.endswith(("postgresql", "postgis")):
        raise ImproperlyConfigured(
            f"jobs cannot be kept in a database of {engine or 'no engine'}: set MULLIGAN = {{'url': …}} to "
            "'sqlite:///…' or 'postgresql://…'"
        )
    user, password, host, port = (str(database.get(name) or "") for name in ("USER", "PASSWORD", "HOST", "PORT"))
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    place = quote(host, safe="") + (f":{port}" if port else "")
    return f"postgresql://{login}{'@' if login else ''}{place}/{quote(str(database.get('NAME') or ''), safe='')}"
