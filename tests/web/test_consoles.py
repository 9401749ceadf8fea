"""Web code reaches jobs only through a console, and a console adds the owner of its caller to every verb."""

import ast
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import mulligan
from mulligan import App, JobNotFound
from mulligan.records.key import Scope
from mulligan.web.access.caller import SCRAPER, Caller
from mulligan.web.access.console import ADMIN, OWNED, Console

WEB = Path(mulligan.__file__).parent / "web"

# Verbs that no caller of the API reaches, and why.
ELSEWHERE = {
    "around": "for the code of the app",
    "asgi": "it is the API",
    "close": "for the process of the app",
    "cron": "for the code of the app",
    "enqueue_many": "POST /jobs enqueues public tasks through Console.submission",
    "enqueue_many_async": "POST /jobs enqueues public tasks through Console.submission",
    "find_key": "for the access of the API itself",
    "has_database": "for the command line",
    "limits_in_force": "for the package itself",
    "migrate": "a change of the schema needs the rights of the operator of the database",
    "names": "for the package itself",
    "project": "calls code of the app",
    "redact": "for the code of the app",
    "run": "for the process of the app",
    "run_until_idle": "for the process of the app",
    "serve": "it is the API",
    "settings": "for the process of the app",
    "store": "has no owners",
    "task": "for the code of the app",
    "tick": "for the process of the app",
    "wait": "a request must not wait for a job; GET /events/stream tells of its end",
    "wait_async": "a request must not wait for a job; GET /events/stream tells of its end",
    "worker": "for the process of the app",
}
# Verbs of owners that take no owner, and why that shows nothing of another.
WITHOUT_OWNER = {
    "receive_hook": "the hook says whose jobs it retries, and the signature proves the caller",
    "blocked_by": "it is given jobs that the caller has found",
    "check_store": "it says whether the store can be used",
    "now": "it is the time",
    "last_position": "it says where the log ends, as each page of events does",
}
# Modules that use more of the app than a console, and what for.
ACCESS = {
    "access/access.py": "clock, ids, and the store's admission",
    "access/admissions.py": "the store's admission",
    "access/console.py": "it is the console",
    "access/page_rates.py": "the store's admission, of visitors without a key",
    "access/sessions.py": "finds the session of a request",
    "access/start.py": "asks whether there are keys",
    "access/store_check.py": "the clock, for what is remembered",
    "pages/dashboard.py": "the clock, for what is remembered",
    "pages/render.py": "the clock, and names of forms",
    "pages/sign_in.py": "begins and ends sessions, creates the first key",
    "serving.py": "runs a worker beside the server",
    "stream/hub.py": "waits for changes of the store; the events are read for each owner",
}
ACME = Caller(key="k1", owner="acme", actor="ci", scopes=frozenset(Scope) - {Scope.OPERATE})
ANN = Caller(key="k2", owner=None, actor="ann", scopes=frozenset(Scope))


def test_every_verb_is_for_owners_for_administrators_or_elsewhere_for_a_reason() -> None:
    verbs = {name for name in dir(App) if not name.startswith("_")}
    assert verbs - OWNED - ADMIN - ELSEWHERE.keys() - WITHOUT_OWNER.keys() == set()
    assert (OWNED | ADMIN) - verbs == set()
    assert set() == OWNED & ADMIN


@pytest.mark.parametrize("verb", sorted(OWNED - WITHOUT_OWNER.keys()))
def test_a_verb_of_owners_takes_an_owner_and_the_console_gives_it(app: App, verb: str) -> None:
    assert "owner" in signature(getattr(App, verb)).parameters
    with pytest.raises(TypeError, match="owner"):
        getattr(Console(app, ACME), verb)(owner="other")


@pytest.mark.parametrize("verb", sorted(ADMIN))
def test_an_owner_has_no_verb_of_administrators(app: App, verb: str) -> None:
    assert not hasattr(Console(app, ACME), verb)
    assert hasattr(Console(app, ANN), verb)


def test_a_scraper_without_a_key_has_metrics_only(app: App) -> None:
    assert {verb for verb in ADMIN if hasattr(Console(app, SCRAPER), verb)} == {"metrics"}


@pytest.mark.parametrize("verb", sorted(ELSEWHERE))
def test_no_caller_has_a_verb_that_is_elsewhere(app: App, verb: str) -> None:
    assert not hasattr(Console(app, ACME), verb)
    assert not hasattr(Console(app, ANN), verb)


def test_no_route_says_who_acts(app: App) -> None:
    for caller in (ACME, ANN):
        with pytest.raises(TypeError, match="actor"):
            Console(app, caller).retry("x", actor="somebody else")


def test_the_jobs_of_another_owner_are_not_there(app: App) -> None:
    task = app.task("t")(lambda: None)
    job = task.options(owner="other").enqueue()
    with pytest.raises(JobNotFound):
        Console(app, ACME).job(job.id)
    assert Console(app, ANN).job(job.id).id == job.id


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(WEB.rglob("*.py")):
        yield path.relative_to(WEB).as_posix(), ast.parse(path.read_text("utf-8"))


def _is_app(node: ast.AST) -> bool:
    """Whether it names an app: `app`, `self.app`, or `_app` of anything, such as a console."""
    match node:
        case ast.Name(id="app") | ast.Attribute(attr="_app"):
            return True
        case ast.Attribute(value=ast.Name(id="self"), attr="app"):
            return True
    return False


@pytest.mark.parametrize(("name", "tree"), [pytest.param(*module, id=module[0]) for module in modules()])
def test_a_module_reaches_an_app_through_its_console_only(name: str, tree: ast.Module) -> None:
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_app(node.value)}
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if name not in ACCESS:
        assert found <= {"tasks"}
        assert not imported & {"mulligan.store", "mulligan.store.store"}


@pytest.mark.parametrize(("name", "tree"), [pytest.param(*module, id=module[0]) for module in modules()])
def test_no_module_asks_for_all_owners(name: str, tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            nothing = [word.arg for word in node.keywords if _is_none(word.value)]
            assert "owner" not in nothing, f"{name}:{node.lineno}"
            assert not (isinstance(node.func, ast.Name) and node.func.id == "getattr" and name not in ACCESS) or (
                not _is_app(node.args[0])
            )


def _is_none(node: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
