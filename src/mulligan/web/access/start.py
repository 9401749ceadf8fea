"""The start of a server: it listens beyond this machine only if there are keys, and prints a link while there is no
administrator."""

from ipaddress import ip_address

from mulligan.app import App
from mulligan.errors import ConfigurationError, NoKeys
from mulligan.records.finding import Level

SETUP_PATH, SIGN_IN_PATH = "/setup", "/sign-in"


def may_listen(app: App, host: str) -> None:
    """Raise NoKeys, unless only this machine can reach `host`, or there is a usable key. Raise ConfigurationError if
    every user of this machine can change the database, and so its keys."""
    found = app.store.permissions()
    if found is not None and found.level is Level.PROBLEM:
        raise ConfigurationError(f"the server does not start: {found.found}; {found.remedy}")
    if not is_loopback(host) and not app.wiring.keys.has_any():
        raise NoKeys(host)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it. Of names only `localhost`: others may resolve to anything."""
    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def first_link(app: App, base_url: str) -> str | None:
    """A link, valid once and for ten minutes, that creates the first administrator's key; None if there is one."""
    token = app.wiring.keys.offer_setup()
    return None if token is None else f"{base_url.rstrip('/')}{SETUP_PATH}?token={token}"
