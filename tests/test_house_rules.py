"""What no type checker sees: where time, chance and threads may come from, and what is public."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mulligan

SOURCE = Path(mulligan.__file__).parent

# Who may ask the machine, and why.
MAY_ASK = {
    "values/clock.py": "the one place",
    "store/sqlite/changes.py": "a driver: it waits for other processes",
    "store/postgres/bounded.py": "a driver: it waits for the server",
    "store/postgres/notify.py": "a driver: it paces what it sends",
}
MAY_START_THREADS = {
    "store/postgres/notify.py": "drives the notifier",
    "store/sqlite/database.py": "drives the writer",
    "store/sqlite/lock.py": "waits in the kernel for another process",
    "worker/children/process.py": "listens to its worker while the main thread runs a task",
    "worker/drivers.py": "drives tasks, store calls, keeper and listener",
    "testing/sandbox.py": "makes room for a loop beside the test's own",
}
MACHINE = {
    ("time", "time"),
    ("time", "monotonic"),
    ("time", "sleep"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("uuid", "uuid4"),
    ("uuid", "uuid1"),
    ("os", "urandom"),
    ("random", "random"),
    ("random", "uniform"),
    ("random", "choice"),
    ("random", "randint"),
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        # The demo is a program that uses the engine, as a user's would be.
        if not name.startswith("cli/"):
            yield name, ast.parse(path.read_text("utf-8"))


def calls(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr


def test_only_the_clock_asks_the_machine_for_time_chance_and_ids() -> None:
    asked = {name for name, tree in modules() if MACHINE & set(calls(tree))}
    assert asked == set(MAY_ASK)


def test_threads_are_started_by_drivers_only() -> None:
    started = {name for name, tree in modules() if ("threading", "Thread") in set(calls(tree))}
    assert started == set(MAY_START_THREADS)


@pytest.mark.parametrize("forbidden", ["pickle", "marshal", "shelve"])
def test_nothing_is_pickled(forbidden: str) -> None:
    for name, tree in modules():
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert forbidden not in imported, name


def test_public_names_are_complete_and_sorted() -> None:
    assert list(mulligan.__all__) == sorted(mulligan.__all__)
    assert all(hasattr(mulligan, name) for name in mulligan.__all__)
    public = {name for name in vars(mulligan) if not name.startswith("_")}
    modules_of_ours = {path.stem for path in SOURCE.iterdir()}
    assert public - modules_of_ours <= set(mulligan.__all__)


def test_the_errors_docstring_names_every_error() -> None:
    from mulligan import errors

    missing = [name for name in errors.__all__ if name not in (errors.__doc__ or "")]
    assert missing == []


def test_every_error_that_a_guide_names_can_be_imported_from_mulligan() -> None:
    from mulligan import errors

    guides = "\n".join(path.read_text() for path in (SOURCE.parents[1] / "docs" / "guides").glob("*.md"))
    named = [name for name in errors.__all__ if re.search(rf"`{name}\b", guides)]
    assert "BatchBusy" in named
    assert [name for name in named if name not in mulligan.__all__] == []


def test_every_public_verb_of_the_app_has_a_docstring() -> None:
    verbs = {name: verb for name, verb in vars(mulligan.App).items() if not name.startswith("_")}
    assert [name for name, verb in verbs.items() if not (verb.__doc__ or "").strip()] == []
