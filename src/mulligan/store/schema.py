"""Versions of the schema: the migrations to each, and which code may work with which."""

from collections.abc import Sequence
from importlib.resources import files

from mulligan.errors import SchemaMismatch

Migration = tuple[int, str, str]


def migrations(package: str) -> list[tuple[int, str, str]]:
    """Return number, name and text of each migration, in order."""
    found = [file for file in (files(package) / "migrations").iterdir() if file.name.endswith(".sql")]
    return sorted((int(file.name[:3]), file.name[:-4], file.read_text("utf-8")) for file in found)


def check_version(found: int, oldest_code: int, known: int) -> None:
    """Refuse a database of a newer version, unless that version allows this code."""
    if found > known and oldest_code > known:
        raise SchemaMismatch(
            f"the database was made by a newer mulligan (schema {found}); this one knows schemas up to {known}: "
            "upgrade mulligan; nothing was changed"
        )


def missing(migrations: Sequence[Migration], found: int) -> list[Migration]:
    return [migration for migration in migrations if migration[0] > found]
