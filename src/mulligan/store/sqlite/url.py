"""SQLite URLs: `sqlite:///jobs.db`, `sqlite:////var/lib/app/jobs.db`, `sqlite:///:memory:`."""

import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from mulligan.errors import BadUrl
from mulligan.values.file import special_file


def parse_url(url: str) -> tuple[Path | None, str]:
    """Return the file (None: in memory) and the `synchronous` setting of a URL."""
    found = re.fullmatch(r"sqlite://(?P<path>[^?]*)(?:\?(?P<query>.*))?", url)
    if found is None:
        raise BadUrl(url, "it does not begin with 'sqlite:///'")
    path = unquote(found["path"])
    if path and not path.startswith("/"):
        raise BadUrl(url, "it needs three slashes before the path")
    options = dict(parse_qsl(found["query"] or "", keep_blank_values=True))
    synchronous = options.pop("synchronous", "full").upper()
    if options or synchronous not in ("FULL", "NORMAL"):
        raise BadUrl(url, "the only option is 'synchronous', 'full' (the default) or 'normal'")
    name = path.removeprefix("/")
    if not name:
        raise BadUrl(url, "it names no file; 'sqlite:///:memory:' keeps jobs in memory until the process ends")
    if name == ":memory:":
        return None, synchronous
    if problem := _problem(name):
        raise BadUrl(url, problem)
    return Path(name), synchronous


def _problem(name: str) -> str | None:
    """Return why no file can have this name."""
    try:
        what = special_file(Path(name))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, ValueError) as error:
        return f"{name!r} cannot be the name of a file: {getattr(error, 'strerror', error)}"
    return what and f"{name!r} is {what}"
