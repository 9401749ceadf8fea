"""How a process hears of the commits of others on SQLite."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mulligan.records.job import NewJob
from mulligan.store.sqlite import SqliteStore
from mulligan.store.sqlite.changes import ANNOUNCED_SECONDS, MOST_UNANNOUNCED, FileChanges
from mulligan.store.sqlite.watch import FileWatch

AN_HOUR = 3_600.0
SOON = 20.0
ENQUEUE = """
import sys
from mulligan.records.job import NewJob
from mulligan.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
sys.stdin.read()
store.enqueue([NewJob(id="it", kind="send", arguments="{}")])
store.close()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def store(url: str) -> Iterator[SqliteStore]:
    with closing(SqliteStore(url)) as store:
        yield store


@pytest.fixture
def changes(store: SqliteStore) -> Iterator[FileChanges]:
    with closing(store.changes()) as changes:
        assert isinstance(changes, FileChanges)
        changes.wait(0)
        yield changes


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")
def test_a_commit_of_another_process_ends_the_wait_without_a_poll(url: str, changes: FileChanges) -> None:
    other = subprocess.Popen([sys.executable, "-c", ENQUEUE, url], stdin=subprocess.PIPE)
    assert other.stdin is not None
    # It would look again by itself in an hour only.
    changes._pause = AN_HOUR
    threading.Timer(0.1, other.stdin.close).start()
    assert changes.wait(AN_HOUR)
    assert other.wait(SOON) == 0


def test_where_the_system_tells_of_no_writes_commits_are_polled_for(
    store: SqliteStore, changes: FileChanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileWatch, "wait", lambda _watch, seconds: time.sleep(min(seconds, 0.01)))
    changes._written_at -= ANNOUNCED_SECONDS
    for number in range(MOST_UNANNOUNCED + 1):
        store.enqueue([NewJob(id=f"job-{number}", kind="send", arguments="{}")])
        assert changes.wait(SOON)
    assert changes._watch is None, "commits without a write show that the watch cannot be trusted"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")
def test_commits_in_quick_succession_do_not_end_the_watch(
    store: SqliteStore, changes: FileChanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writes of commits that show one after the other may be read as one event."""
    events = [True]
    monkeypatch.setattr(FileWatch, "wait", lambda *_: bool(events) and events.pop())
    watch = changes._watch
    for number in range(MOST_UNANNOUNCED + 1):
        store.enqueue([NewJob(id=f"job-{number}", kind="send", arguments="{}")])
        assert changes.wait(SOON)
    assert changes._watch is watch


def test_closing_ends_a_wait(changes: FileChanges) -> None:
    changes._pause = AN_HOUR
    waiting = threading.Thread(target=changes.wait, args=(AN_HOUR,), daemon=True)
    waiting.start()
    changes.close()
    waiting.join(SOON)
    assert not waiting.is_alive()
