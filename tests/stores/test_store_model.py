"""The SQLite store against the model of a store, in memory and on a file."""

from conformance.suite import machine
from mulligan.store.sqlite import SqliteStore

TestMemoryIsTheModel = machine(lambda now, _: SqliteStore("sqlite:///:memory:", now=now, threaded=False))
TestFileIsTheModel = machine(
    lambda now, folder: SqliteStore(f"sqlite:///{folder}/jobs.db?synchronous=normal", now=now, threaded=False),
    examples=10,
)
