"""The SQLite library in use, and its errors in our words."""

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from mulligan.errors import StoreDamaged, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from mulligan.store.sqlite.lock import locked_out

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        # Newer than the system's, and without its rare WAL-reset bug.
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:
        import sqlite3

__all__ = ["CANNOT_OPEN", "OLDEST_VERSION", "READ_ONLY", "primary_code", "sqlite3", "translated"]

# STRICT tables and RETURNING.
OLDEST_VERSION = (3, 37, 0)
READ_ONLY, CANNOT_OPEN = 8, 14


def primary_code(error: BaseException) -> int | None:
    """SQLite's own number of the error, without the details."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


class translated:  # noqa: N801
    """Raise what SQLite raises as one of our store errors, each with what can be done."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, sqlite3.DatabaseError):
            raise _translate(error, self._place) from error
        if isinstance(error, OSError):
            raise _translate_system(error, self._place) from error


def _translate_system(error: OSError, place: str) -> StoreError:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return StoreFull(f"no space left for {place}: free some; nothing was lost")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return StoreReadOnly(f"{place} cannot be written: {error.strerror}; give this user write access")
        case _:
            return StoreUnavailable(f"{place} cannot be used now: {error}")


def _translate(error: Exception, place: str) -> StoreError:
    match primary_code(error):
        case 5 | 6:  # BUSY, LOCKED
            return locked_out(Path(place))
        case 8:  # READONLY
            return StoreReadOnly(f"{place} cannot be written: give this user write access to the file and its folder")
        case 13:  # FULL
            return StoreFull(f"no space left for {place}: free some; nothing was lost")
        case 10:  # IOERR
            return StoreUnavailable(f"{place} cannot be read or written now: {error}")
        case 14:  # CANTOPEN
            return StoreUnavailable(f"{place} cannot be opened: does its folder exist, and may this user write there?")
        case 11 | 26:  # CORRUPT, NOTADB
            return StoreDamaged(f"{place} is not a healthy SQLite database: {error}; restore it from a backup")
        case _:
            return StoreError(f"{place}: {error}")
