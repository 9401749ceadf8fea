"""Versions of the schema: which code may work with which."""

from collections.abc import Sequence

from mulligan.errors import SchemaMismatch

Migration = tuple[int, str, str]


def check_version(found: int, oldest_code: int, known: int) -> None:
    """Refuse a database of a newer version, unless that version allows this code."""
    if found > known and oldest_code > known:
        raise SchemaMismatch(
            f"the database was made by a newer mulligan (schema {found}); this one knows schemas up to {known}: "
            "upgrade mulligan; nothing was changed"
        )


def missing(migrations: Sequence[Migration], found: int) -> list[Migration]:
    return [migration for migration in migrations if migration[0] > found]
