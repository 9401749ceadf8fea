"""The SQLite library in use, and its errors as store errors."""

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from mulligan.errors import StoreDamaged, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from mulligan.store.sqlite.lock import lock_error

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        # Newer than the system's library, and without its rare WAL-reset bug.
        from pysqlite3 import dbapi2 as sqlite3
    except ImportError:
        import sqlite3

__all__ = ["CANNOT_OPEN", "OLDEST_VERSION", "READ_ONLY", "primary_code", "sqlite3", "translate_errors"]

# For STRICT tables and RETURNING.
OLDEST_VERSION = (3, 37, 0)
READ_ONLY, CANNOT_OPEN = 8, 14


def primary_code(error: BaseException) -> int | None:
    """Return SQLite's error number without the extended code."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


class translate_errors:  # noqa: N801
    """Raise SQLite's errors as store errors that say what to do."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, sqlite3.DatabaseError):
            raise _translate(error, self._name) from error
        if isinstance(error, OSError):
            raise _translate_os_error(error, self._name) from error


def _translate_os_error(error: OSError, name: str) -> StoreError:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return StoreFull(f"no space left for {name}: free some; nothing was lost")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return StoreReadOnly(f"{name} cannot be written: {error.strerror}; give this user write access")
        case _:
            return StoreUnavailable(f"{name} cannot be used now: {error}")


def _translate(error: Exception, name: str) -> StoreError:
    match primary_code(error):
        case 5 | 6:  # BUSY, LOCKED
            return lock_error(Path(name))
        case 8:  # READONLY
            return StoreReadOnly(f"{name} cannot be written: give this user write access to the file and its folder")
        case 13:  # FULL
            return StoreFull(f"no space left for {name}: free some; nothing was lost")
        case 10:  # IOERR
            return StoreUnavailable(f"{name} cannot be read or written now: {error}")
        case 14:  # CANTOPEN
            return StoreUnavailable(f"{name} cannot be opened: does its folder exist, and may this user write there?")
        case 11 | 26:  # CORRUPT, NOTADB
            return StoreDamaged(f"{name} is not a healthy SQLite database: {error}; restore it from a backup")
        case _:
            return StoreError(f"{name}: {error}")
