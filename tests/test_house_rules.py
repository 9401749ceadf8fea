"""What no type checker sees: where time, chance and threads may come from, and what is public."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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
    "web/serving.py": "serves beside a program of its own, such as the demo",
    "egress.py": "asks the resolver, which takes no timeout",
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
    ("secrets", "token_bytes"),
    ("secrets", "token_hex"),
    ("secrets", "token_urlsafe"),
    ("random", "random"),
    ("random", "uniform"),
    ("random", "choice"),
    ("random", "randint"),
}


@cache
def parse() -> dict[str, ast.Module]:
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))
    }


@cache
def walk(tree: ast.Module) -> list[ast.AST]:
    return list(ast.walk(tree))


def all_modules() -> Iterator[tuple[str, ast.Module]]:
    """With the command line."""
    yield from parse().items()


def modules() -> Iterator[tuple[str, ast.Module]]:
    # The demo is a program that uses the engine, as a user's would be.
    yield from ((name, tree) for name, tree in all_modules() if not name.startswith("cli/"))


def calls(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr


def test_only_the_clock_asks_the_machine_for_time_chance_and_ids() -> None:
    asked = {name for name, tree in modules() if MACHINE & set(calls(tree))}
    assert asked == set(MAY_ASK)


def test_the_web_code_asks_the_clock_of_its_app() -> None:
    asking = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.alias)
        and "SystemClock" in (getattr(node, "id", ""), getattr(node, "name", ""))
    }
    assert not {name for name in asking if name.startswith("web/")}
    assert "wiring/parts.py" in asking, "the rule finds nothing"


def test_threads_are_started_by_drivers_only() -> None:
    started = {name for name, tree in modules() if ("threading", "Thread") in set(calls(tree))}
    assert started == set(MAY_START_THREADS)


# What would make code of data.
LOADERS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
EVALUATORS = {"eval", "exec", "compile", "__import__", "execfile"}
# Modules that import what a name says, and whose name that is.
MAY_IMPORT = {
    "cli/loading.py": "the app that the operator names on the command line",
    "cli/root.py": "the module of a command, from a table",
    "failure/packs/installed.py": "the packs that installed distributions declare",
    "worker/children/locate.py": "the app of the worker, in its child process",
}
MAY_PARSE_YAML = {"policies/yaml.py": "events of the parser; no object is made from a tag"}


def imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def called(tree: ast.Module) -> set[str]:
    """Plain names, and `module.function`."""
    names = {node.func.id for node in walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return names | {f"{of}.{name}" for of, name in calls(tree)}


def test_nothing_makes_code_of_data() -> None:
    for name, tree in all_modules():
        assert not LOADERS & imports(tree), name
        assert not EVALUATORS & called(tree), name


def test_only_what_an_operator_names_is_imported_by_name() -> None:
    dynamic = {"importlib.import_module", "import_module", "entry_points", "runpy.run_path", "run_module"}
    assert {name for name, tree in all_modules() if dynamic & called(tree)} == set(MAY_IMPORT)


def test_yaml_is_parsed_in_one_place_and_makes_no_objects() -> None:
    assert {name for name, tree in all_modules() if "yaml" in imports(tree)} == set(MAY_PARSE_YAML)
    for _, tree in all_modules():
        assert not {"yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"} & called(tree)


# Words that only a statement has.
SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|WHERE|AND|LISTEN|PRAGMA|VALUES|EXISTS|IN \()|(=|>|<|<=|>=) ?(:|'|\{)")
# Statements that are composed, by file, and why nothing of a request is in them.
COMPOSED = {
    "store/deliveries.py": "names of columns that the operation has as parameters",
    "store/events.py": "names of columns that filters have",
    "store/forget.py": "keys of tables of ours",
    "store/groups.py": "names of columns that the operation has as parameters",
    "store/postgres/health.py": "the channel of ours; remedies, which are shown and not run",
    "store/postgres/notify.py": "the channel of ours",
    "store/postgres/session.py": "settings of ours",
    "store/reading.py": "states of the lifecycle",
    "store/scans.py": "states of the lifecycle, and conditions of ours",
    "store/statistics.py": "names of columns in a list of ours",
    "store/sqlite/database.py": "numbers of ours; `synchronous`, one of two words of the URL",
    "store/sqlite/session.py": "a statement of ours",
}


def composed(tree: ast.Module) -> Iterator[str]:
    """Strings with a word of SQL that are made by an f-string, `%`, `+` or `format`."""
    for node in walk(tree):
        match node:
            case ast.JoinedStr():
                text = "".join(part.value if isinstance(part, ast.Constant) else "{" for part in node.values)
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod() | ast.Add()):
                pass
            case ast.BinOp(right=ast.Constant(value=str(text)), op=ast.Add()):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                pass
            case _:
                continue
        if SQL.search(text):
            yield text


def test_no_statement_is_composed_but_of_parts_of_ours() -> None:
    found = {name for name, tree in modules() if name.startswith("store/") and set(composed(tree))}
    assert found == set(COMPOSED)


def test_only_the_store_runs_statements() -> None:
    """Elsewhere there is none to compose."""
    running = {"execute", "executemany", "executescript"}
    for name, tree in all_modules():
        if not name.startswith(("store/", "contrib/", "cli/demo/")):
            methods = {getattr(node.func, "attr", "") for node in walk(tree) if isinstance(node, ast.Call)}
            assert not running & methods, name


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
