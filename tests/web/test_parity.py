"""Every public verb of an app has a form on the command line and in the API, or a reason why not."""

import inspect
from pathlib import Path

import mulligan.cli
from mulligan import App
from mulligan.web.access.console import ADMIN, OWNED
from mulligan.web.api import GROUPS
from mulligan.web.route import collect

CODE = "it takes or returns code, which only a program has"
PROCESS = "it is about the process of the caller"

# What has no command.
NO_COMMAND = {
    "cron": CODE,
    "around": CODE,
    "redact": PROCESS,
    "enqueue_many": CODE,
    "enqueue_many_async": CODE,
    "wait": "a program waits; a person looks: `mulligan jobs show`",
    "wait_async": "a program waits",
    "project": CODE,
    "failure_trend": "`mulligan stats` shows the same numbers by kind and code; a chart needs a page",
    "progress": "`mulligan jobs show` shows the progress of a job",
    "batch": "members are calls of tasks, which only a program or the API can make",
    "worker": CODE,
    "run_until_idle": "for scripts and tests",
    "asgi": CODE,
    "close": PROCESS,
    "find_key": "a server checks tokens; a person lists keys: `mulligan keys list`",
    "packs": "`mulligan policies packs` lists those of its own machine",
    "receive_hook": "a partner calls it, over HTTP",
    "names": PROCESS,
    "limits_in_force": PROCESS,
    "has_database": PROCESS,
    "tick": "`mulligan duties run`, one by one",
    "settings": PROCESS,
    "store": PROCESS,
    "task": CODE,
}
# What has no route.
NO_ROUTE = {
    "task": CODE,
    "cron": CODE,
    "around": CODE,
    "redact": PROCESS,
    "enqueue_many_async": CODE,
    "wait": "a client asks for the job, or follows the stream of events",
    "wait_async": "a client asks for the job, or follows the stream of events",
    "project": CODE,
    "worker": PROCESS,
    "run": PROCESS,
    "run_until_idle": PROCESS,
    "serve": PROCESS,
    "asgi": CODE,
    "close": PROCESS,
    "find_key": "every request checks its key",
    "migrate": "a person migrates before a server starts",
    "names": PROCESS,
    "limits_in_force": "`GET /limits` shows limits with their use",
    "default_owner_limit": "`GET /limits?owner=` shows the limit of each owner",
    "has_database": PROCESS,
    "tick": "`POST /admin/duties/{name}/run`, one by one",
    "settings": PROCESS,
    "store": PROCESS,
}
# The verbs whose routes have other names in their code.
CALLED = {"enqueue_many": "draft.add"}


def verbs() -> set[str]:
    return {name for name, value in inspect.getmembers(App) if not name.startswith("_") and not isinstance(value, type)}


def sources(folder: Path) -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.py")))


def test_every_verb_has_a_command_or_a_reason() -> None:
    commands = sources(Path(str(mulligan.cli.__file__)).parent)
    moves = {"retry", "cancel", "snooze", "run_now", "expire_result", "release_key"}
    missing = {
        name
        for name in verbs() - NO_COMMAND.keys() - moves
        if f"app.{name}(" not in commands and f"app.{name}," not in commands
    }
    assert not missing, "add a command, or a reason to NO_COMMAND"


def test_every_verb_has_a_route_or_a_reason() -> None:
    api = sources(Path(str(mulligan.cli.__file__)).parents[1] / "web")
    found = {name for name in verbs() if f"console.{name}(" in api or CALLED.get(name, "\0") in api}
    missing = verbs() - found - NO_ROUTE.keys()
    assert not missing, "add a route, or a reason to NO_ROUTE"
    assert not found & NO_ROUTE.keys(), "these have routes: remove their reasons"


def test_every_verb_that_a_route_may_use_exists() -> None:
    assert verbs() >= OWNED | ADMIN
    assert not OWNED & ADMIN


def test_every_route_of_an_administrator_needs_one() -> None:
    """A verb that concerns all owners is out of reach for an owner's key, and its route says so."""
    for route in collect(GROUPS):
        used = {name for name in ADMIN if f"console.{name}(" in inspect.getsource(route.handler)}
        if used and not route.is_admin:
            assert "is_admin" in inspect.getsource(route.handler), (route.name, used)
