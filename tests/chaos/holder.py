"""Another program on the same SQLite file: it holds the write lock, or an old snapshot, for a while.

Run as `python -m chaos.holder PATH write|read SECONDS`.
"""

import sqlite3
import sys
import time


def main(path: str, what: str, seconds: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None, timeout=10)
    connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    connection.execute("BEGIN IMMEDIATE" if what == "write" else "BEGIN")
    connection.execute("SELECT count(*) FROM mulligan_events").fetchall()
    time.sleep(float(seconds))
    connection.execute("ROLLBACK")


if __name__ == "__main__":
    main(*sys.argv[1:])
