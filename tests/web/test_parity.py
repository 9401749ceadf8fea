"""Every public verb of an app has a form on the command line and in the API, or a reason why not."""

import ast
import inspect
import re
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
    "now": CODE,
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
BEFORE = "a person does it before a server starts"
# What has no page.
NO_PAGE = {
    "task": CODE,
    "cron": CODE,
    "around": CODE,
    "now": CODE,
    "redact": PROCESS,
    "enqueue_many": CODE,
    "enqueue_many_async": CODE,
    "batch": "members are calls of tasks, which only a program or the API can make",
    "wait": "a page shows the job, and changes with it",
    "wait_async": "a page shows the job, and changes with it",
    "stream": "pages change by themselves, and a job shows its events",
    "progress": "a page shows it with the job",
    "project": CODE,
    "projections": "the doctor says which are behind",
    "drop_projection": "a program owns it; `mulligan projections drop` is for what no program reads any more",
    "rebuild_statistics": "`mulligan stats rebuild`, after an error in our code was mended",
    "worker": PROCESS,
    "run": PROCESS,
    "run_until_idle": PROCESS,
    "serve": PROCESS,
    "asgi": CODE,
    "close": PROCESS,
    "find_key": "every request checks its key",
    "migrate": BEFORE,
    "check_store": BEFORE,
    "names": PROCESS,
    "limits_in_force": "the page of queues shows limits with their use",
    "has_database": PROCESS,
    "tick": "the page of duties runs them, one by one",
    "settings": PROCESS,
    "store": PROCESS,
    "export": "pages link to `/jobs/export` of the API",
    "purge": "it deletes jobs for good: `mulligan jobs purge`, or the API",
    "forget_owner": "it deletes all jobs of an owner for good: `mulligan owners forget`, or the API",
    "metrics": "for machines",
    "read_metrics": "for machines",
    "readiness": "for machines; a person reads the doctor",
    "receive_hook": "a partner calls it, over HTTP",
}
WEB = Path(str(mulligan.cli.__file__)).parents[1] / "web"
# What has no route.
NO_ROUTE = {
    "task": CODE,
    "cron": CODE,
    "around": CODE,
    "now": CODE,
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
    "failure_trend": "the list of failures has it; `/statistics` has the numbers behind it",
    "sign_in_link": "a person is given it on the page of keys, or by `mulligan keys link`",
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


def sources(folder: Path, besides: str = "") -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.py")) if besides not in path.parts)


def used_in(code: str) -> set[str]:
    """A verb that is called, or handed over to be called."""
    return {name for name in verbs() if re.search(rf"console\.{name}[(,)]", code) or CALLED.get(name, "\0") in code}


def used_of_app(code: str) -> set[str]:
    """The names that follow `app.` in the code, but not in its texts."""
    return {
        node.attr
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).rpartition(".")[2] == "app"
    }


def test_every_verb_has_a_command_or_a_reason() -> None:
    moves = {"retry", "cancel", "snooze", "run_now", "expire_result", "release_key"}
    found = moves | used_of_app(sources(Path(str(mulligan.cli.__file__)).parent))
    assert not verbs() - found - NO_COMMAND.keys(), "add a command, or a reason to NO_COMMAND"
    # Commands use such verbs too, for themselves.
    inner = {name for name, reason in NO_COMMAND.items() if reason in (CODE, PROCESS)}
    assert not found & NO_COMMAND.keys() - inner, "these have commands: remove their reasons"
    assert verbs() >= NO_COMMAND.keys(), "these are no verbs: remove their reasons"


def test_every_verb_has_a_route_or_a_reason() -> None:
    found = used_in(sources(WEB, besides="pages"))
    missing = verbs() - found - NO_ROUTE.keys()
    assert not missing, "add a route, or a reason to NO_ROUTE"
    assert not found & NO_ROUTE.keys(), "these have routes: remove their reasons"


def test_every_verb_has_a_page_or_a_reason() -> None:
    found = used_in(sources(WEB / "pages"))
    missing = verbs() - found - NO_PAGE.keys()
    assert not missing, "add it to a page, or a reason to NO_PAGE"
    assert not found & NO_PAGE.keys(), "these have pages: remove their reasons"


def test_every_verb_that_a_route_may_use_exists() -> None:
    assert verbs() >= OWNED | ADMIN
    assert not OWNED & ADMIN


def test_every_route_of_an_administrator_needs_one() -> None:
    """A verb that concerns all owners is out of reach for an owner's key, and its route says so."""
    for route in collect(GROUPS):
        used = {name for name in ADMIN if re.search(rf"console\.{name}[(,)]", inspect.getsource(route.handler))}
        if used and not route.is_admin:
            assert "is_admin" in inspect.getsource(route.handler), (route.name, used)
