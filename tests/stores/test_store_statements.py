"""The `.sql` files: each is used, and what both databases share exists once."""

import re
from pathlib import Path

import mulligan.store
from mulligan.store.session import for_sqlite

STORE = Path(mulligan.store.__file__).parent
SHARED, POSTGRES, SQLITE = (STORE / folder / "sql" for folder in ("", "postgres", "sqlite"))
CLOCK = (POSTGRES / "clock.sql").read_text().strip()


def test_a_statement_that_both_databases_have_differs_between_them() -> None:
    both = {file.name for file in POSTGRES.iterdir()} & {file.name for file in SQLITE.iterdir()}
    alike = [name for name in both if plain(for_sqlite(read(POSTGRES / name))) == plain(read(SQLITE / name))]
    assert alike == [], "one file in store/sql is enough"
    assert {file.name for file in SHARED.iterdir()} & both == set()


def test_every_statement_is_used() -> None:
    sources = "".join(file.read_text("utf-8") for ending in ("py", "sql") for file in STORE.rglob(f"*.{ending}"))
    named = set(re.findall(r'"([a-z_]+)"|\{\{([a-z_]+)\}\}', sources))
    used = {name for pair in named for name in pair}
    assert {file.stem for folder in (SHARED, POSTGRES, SQLITE) for file in folder.iterdir()} - used == set()


def read(file: Path) -> str:
    """Its text, with the clock as SQLite has it: each session there has a time."""
    text = file.read_text("utf-8")
    return text if file.name == "clock.sql" else text.replace(CLOCK, ":now").replace("{{clock}}", ":now")


def plain(text: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", "", text).split())


def test_no_parameter_has_a_number() -> None:
    """Python 3.12.1 takes `?1` for a name, and warns of values that are given by position."""
    numbered = [path.name for path in STORE.rglob("*.sql") if re.search(r"\?\d", path.read_text())]
    assert numbered == []
