"""Another process holds the lock of a SQLite file: reading works, and a change names the holder."""

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from mulligan import App

Invoke = Callable[..., Result]
HERE = ("--database", "sqlite:///jobs.db")
LOOKS = [
    ("jobs", "list"),
    ("jobs", "show"),
    ("jobs", "explain"),
    ("jobs", "stuck"),
    ("jobs", "purge", "--state", "failed", "--older-than", "1h"),
    ("jobs", "export"),
    ("batches",),
    ("redrive", "list"),
    ("redrive", "--code", "NOT_PDF", "--preview"),
    ("events",),
    ("workers",),
    ("limits",),
    ("duties",),
    ("schedules",),
    ("services",),
    ("pauses",),
    ("migrate",),
]


@pytest.fixture
def job(works: App, enqueue: Callable[..., str]) -> Iterator[str]:
    """A failed job. No other process has the file open, but its lock is held."""
    job_id = enqueue("bad", run=True)
    works.close()
    with Path("jobs.db-lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield job_id


@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_every_reading_command_works(invoke: Invoke, job: str, look: tuple[str, ...]) -> None:
    result = invoke(*HERE, *look, *([job] if look[1:] in (("show",), ("explain",)) else []))
    assert result.exit_code == 0, result.output


def test_the_doctor_names_the_holder_of_the_lock(invoke: Invoke, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoke(*HERE, "doctor")
    assert result.exit_code == 5
    assert f"problem  sqlite.lock: process {os.getpid()} (" in result.stdout
    assert "ok       store.reachable: the store answers" in result.stdout


def test_a_change_fails_in_time_and_names_the_holder_of_the_lock(
    invoke: Invoke, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULLIGAN_STORE_TIMEOUT_SEC", "1")
    result = invoke(*HERE, "jobs", "retry", job)
    assert result.exit_code == 5
    assert "Error: jobs.db is locked by another program for too long" in result.stderr
    assert f"process {os.getpid()} (" in result.stderr
