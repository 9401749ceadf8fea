"""A PostgreSQL that is wrong, locked, too old or gone: one clear message, and work resumes without help."""

import asyncio
import logging
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer, emptied, free_port, postgres_server
from transactions import held, until_blocked

from chaos.proxy import Proxy
from live import SOON, eventually, working
from mulligan import App
from mulligan.errors import SchemaMismatch, StoreError, StoreUnavailable, UndeclaredProxy
from mulligan.records.job import JobFilter, NewJob
from mulligan.settings import Settings
from mulligan.store.messages import Claim
from mulligan.store.postgres import PostgresStore, connections, schema
from mulligan.store.postgres.notify import BURST, PER_SECOND, Notifier

SECRET = "s3cret-and+never/shown"


def said(url: str, call: Callable[[PostgresStore], object] = PostgresStore.now) -> StoreError:
    """The error that a first call on this URL meets."""
    store = PostgresStore(url)
    try:
        with pytest.raises(StoreError) as raised:
            call(store)
    finally:
        store.close()
    return raised.value


def is_one_sentence(error: StoreError) -> bool:
    text = str(error)
    return "\n" not in text and len(text) < 260 and text.count("connection to server") <= 1


def enqueue(store: PostgresStore) -> object:
    return store.enqueue([NewJob(id="job", kind="send", arguments="{}")])


@pytest.fixture
def locked(server: PostgresServer) -> str:
    """A user with a password, and the address where it is needed."""
    rules = server.folder / "data" / "pg_hba.conf"
    rule = "host all locked 127.0.0.1/32 scram-sha-256\n"
    if not rules.read_text().startswith(rule):
        rules.write_text(rule + rules.read_text())
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE ROLE locked LOGIN PASSWORD 'the right one'")
            connection.execute("SELECT pg_reload_conf()")
    return f"127.0.0.1:{server.port}"


# One sentence


@pytest.mark.parametrize("url", ["postgresql://locked:{}@{}/suite", "postgresql://locked@{1}/suite?password={0}"])
def test_a_wrong_password_is_named_and_not_shown(locked: str, database: str, url: str) -> None:
    error = said(url.format(SECRET.replace("/", "%2F").replace("+", "%2B"), locked))
    assert isinstance(error, StoreUnavailable)
    assert is_one_sentence(error)
    assert "refuses this user or password" in str(error)
    assert "locked" in str(error)
    assert "s3cret" not in str(error)


def test_a_password_that_is_missing_is_asked_for(locked: str, database: str) -> None:
    error = said(f"postgresql://locked@{locked}/suite")
    assert is_one_sentence(error)
    assert "refuses this user or password" in str(error)


def test_a_missing_database_is_named(server: PostgresServer) -> None:
    error = said(server.url("nowhere").replace("postgres@", f"postgres:{SECRET.replace('/', '%2F')}@"))
    assert isinstance(error, StoreUnavailable)
    assert is_one_sentence(error)
    assert 'database "nowhere" does not exist' in str(error)
    assert "create it first" in str(error)
    assert "s3cret" not in str(error)


def test_a_server_that_does_not_run_is_named() -> None:
    error = said(f"postgresql://me:{SECRET.replace('/', '%2F')}@127.0.0.1:{free_port()}/jobs")
    assert isinstance(error, StoreUnavailable)
    assert is_one_sentence(error)
    assert "cannot be reached now" in str(error)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize("lost", ["pg_backend_pid", "mulligan_schema"])
def test_a_server_that_goes_away_while_it_is_looked_at_cannot_be_reached(
    server: PostgresServer, database: str, lost: str
) -> None:
    proxy = Proxy(server.port, writes=re.compile(lost.encode()))
    with closing(proxy):
        proxy.cut(requests=1)
        error = said(database.replace(f":{server.port}/", f":{proxy.port}/") + "?sslmode=disable&gssencmode=disable")
    assert proxy.cuts["request"] == 1
    assert isinstance(error, StoreUnavailable)
    assert "cannot be reached now" in str(error)


def test_a_server_that_is_too_old_is_refused(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OLDEST_SERVER", 990_000)
    error = said(database)
    assert is_one_sentence(error)
    assert "mulligan needs 99 or newer" in str(error)


def test_a_missing_permission_is_named(server: PostgresServer, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP OWNED BY reader" if _has_role(connection, "reader") else "CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    error = said(server.url("suite", user="reader"), enqueue)
    assert is_one_sentence(error)
    assert "lacks a permission: permission denied for table mulligan_jobs" in str(error)
    store = PostgresStore(server.url("suite", user="reader"))
    assert store.counts() is not None, "a reader can still read"
    store.close()


def _has_role(connection: psycopg.Connection[Any], name: str) -> bool:
    return connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is not None


def test_a_database_that_was_not_migrated_says_what_to_run(server: PostgresServer) -> None:
    error = said(server.fresh_database("empty"), enqueue)
    assert isinstance(error, SchemaMismatch)
    assert is_one_sentence(error)
    assert "run 'mulligan migrate'" in str(error)


def test_a_worker_makes_no_tables_and_says_what_to_run(server: PostgresServer, tmp_path: Path) -> None:
    url = server.fresh_database("untouched")
    (tmp_path / "shop.py").write_text(f"from mulligan import App; app = App({url!r}); app.task('send')(lambda: None)")
    command = [sys.executable, "-m", "mulligan", "worker", "shop:app"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (5, "")
    assert "the database has no mulligan tables yet: run 'mulligan migrate'" in ended.stderr
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regclass('mulligan_schema')").fetchone() == (None,)


def test_a_proxy_that_pools_transactions_is_named_with_its_remedy(undeclared: str) -> None:
    error = said(undeclared, enqueue)
    assert isinstance(error, UndeclaredProxy)
    assert is_one_sentence(error)
    assert "add '?proxy=transaction' to the URL" in str(error)


def test_a_proxy_that_was_not_noticed_at_first_is_named_by_what_it_does_to_statements(undeclared: str) -> None:
    """In a busy pool the look at the start may see nothing."""
    stores = [PostgresStore(undeclared + "?notify=off") for _ in range(2)]
    with closing(stores[0]), closing(stores[1]), pytest.raises(UndeclaredProxy, match="proxy=transaction"):
        for store in stores:
            store._is_checked = True
        for number in range(50):
            for place, store in enumerate(stores):
                claim = Claim(incarnation=f"w{place}", number=number, kinds=["send"], limit=1, lease=timedelta(hours=1))
                store.claim(claim)


def test_a_schema_that_is_too_new_is_left_alone_and_one_that_is_new_but_kind_is_used(server: PostgresServer) -> None:
    url = server.fresh_database("newer")
    store = PostgresStore(url)
    store.migrate()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO mulligan_schema VALUES (99, 'newer', %s)", (schema.VERSION,))
        assert store.migrate() == []
        enqueue(store)
        store.close()
        connection.execute("UPDATE mulligan_schema SET oldest_code = 99 WHERE version = 99")
    calls: list[Callable[[PostgresStore], object]] = [enqueue, PostgresStore.migrate]
    for call in calls:
        error = said(url, call)
        assert isinstance(error, SchemaMismatch)
        assert is_one_sentence(error)
        assert "made by a newer mulligan (schema 99)" in str(error)


def test_two_processes_that_migrate_at_once_both_succeed_and_one_does_it(server: PostgresServer) -> None:
    url = server.fresh_database("migrated")
    code = "import sys; from mulligan import App\nwith App(sys.argv[1]) as app: print(len(app.migrate()))"
    with held(url) as other:
        other.begin().execute("SELECT pg_advisory_xact_lock(7216104371)")
        processes = [
            subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True) for _ in range(2)
        ]
        until_blocked(url, 2)
    answers = sorted(process.communicate(timeout=SOON)[0].strip() for process in processes)
    assert answers == ["0", str(len(schema.MIGRATIONS))]
    assert [process.returncode for process in processes] == [0, 0]


# Wake-ups


def sessions(url: str, condition: str) -> list[int]:
    with psycopg.connect(url, autocommit=True) as connection:
        statement = f"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND {condition}"
        return [pid for (pid,) in connection.execute(statement.encode())]


def test_wake_ups_come_back_alone_after_their_connection_was_cut(database: str) -> None:
    store, other = PostgresStore(emptied(database)), PostgresStore(database)
    changes = store.changes()
    (listener,) = sessions(database, "query = 'LISTEN mulligan'")
    enqueue(other)
    assert changes.wait(SOON) or changes.wait(SOON)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", (listener,))
    eventually(lambda: not sessions(database, f"pid = {listener}"))
    eventually(lambda: changes.wait(0.1), 5.0)
    assert sessions(database, "query = 'LISTEN mulligan'") not in ([], [listener])
    while changes.wait(0.1):
        pass
    other.enqueue([NewJob(id="another", kind="send", arguments="{}")])
    eventually(lambda: changes.wait(0.1), 2.0)
    changes.close()
    store.close()
    other.close()


class Sent:
    """In place of the connections: counts what is sent."""

    is_inherited = False

    def __init__(self) -> None:
        self.times: list[float] = []

    def run(self, _work: object) -> None:
        self.times.append(time.monotonic())


def test_a_storm_sends_fewer_than_two_hundred_hints_a_second_and_its_last_job_is_announced() -> None:
    sent = Sent()
    notifier = Notifier(sent)  # type: ignore[arg-type]
    begin = time.monotonic()
    while time.monotonic() - begin < 0.5:
        last = time.monotonic()
        if notifier.take():
            sent.run(None)
        else:
            notifier.hint()
    eventually(lambda: sent.times[-1] >= last)
    assert 2 <= len(sent.times) <= PER_SECOND * (sent.times[-1] - begin) + BURST + 1
    assert PER_SECOND + BURST <= 200
    notifier.close()


def test_callers_go_on_sending_hints_while_the_thread_waits_for_a_connection() -> None:
    free = threading.Event()
    notifier = Notifier(SimpleNamespace(run=lambda _work: free.wait(SOON), is_inherited=False))  # type: ignore[arg-type]
    begin, sent = time.monotonic(), 0
    while time.monotonic() - begin < 0.5:
        if notifier.take():
            sent += 1
        else:
            notifier.hint()
            # The thread takes the hint, and is stuck with it.
            time.sleep(0.001)
    free.set()
    notifier.close()
    assert sent >= BURST + PER_SECOND * 0.5 / 2


def test_a_hint_is_sent_though_the_program_ends_right_after_it() -> None:
    for _ in range(200):
        sent = Sent()
        notifier = Notifier(sent)  # type: ignore[arg-type]
        notifier.hint()
        closing = threading.Thread(target=notifier.close, daemon=True)
        closing.start()
        closing.join(SOON)
        assert not closing.is_alive(), "close() does not hang, whatever the thread does at that moment"
        assert sent.times


def test_another_process_is_notified_of_a_job(database: str) -> None:
    store = PostgresStore(emptied(database))
    with psycopg.connect(database, autocommit=True) as listener:
        listener.execute("LISTEN mulligan")
        store.enqueue([NewJob(id="job", kind="send", arguments="{}")])
        assert store._postgres._notifier._thread is None, "the NOTIFY went with the job"  # type: ignore[union-attr]
        store.close()
        assert any(True for _ in listener.notifies(timeout=SOON, stop_after=1))


def test_a_job_that_another_statement_has_to_store_is_announced_too(database: str) -> None:
    with closing(PostgresStore(emptied(database))) as store:
        for number in range(2):
            # The second call finds that the id exists, after its NOTIFY was sent.
            store.enqueue([NewJob(id="job", kind="send", arguments=f"[{number}]")])
    # The first store has sent all its hints when it is closed.
    with closing(PostgresStore(database)) as store, psycopg.connect(database, autocommit=True) as listener:
        listener.execute("LISTEN mulligan")
        store.enqueue([NewJob(id="keyed", kind="send", arguments="{}", dedupe_key="key")])
        assert any(True for _ in listener.notifies(timeout=SOON, stop_after=1))
        assert [job.id for job in store.jobs(JobFilter()).jobs] == ["keyed", "job"]


# The server stops in the middle of everything


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def records() -> Iterator[list[str]]:
    handler, logger = Records(), logging.getLogger("mulligan")
    logger.addHandler(handler)
    yield handler.texts
    logger.removeHandler(handler)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def quick(url: str, ran: "Counter[int]") -> App:
    app = App(settings=Settings(database_url=url, worker_lease_ttl=timedelta(seconds=6)))

    @app.task
    async def note(number: int) -> int:
        ran[number] += 1
        await asyncio.sleep(0.002)
        return number

    @app.task
    def steady(number: int) -> int:
        ran[number] += 1
        return number

    return app


class Client(threading.Thread):
    """Enqueues one by one without end, and each again until the store answers."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._store = PostgresStore(url)
        self.done = threading.Event()
        self.acknowledged: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.done.is_set():
            number += 1
            kind = "note" if number % 3 else "steady"
            job = NewJob(id=f"{number:06}", kind=kind, arguments=f'{{"number":{number}}}')
            while not self.done.is_set():
                try:
                    (stored,) = self._store.enqueue([job])
                except StoreError:
                    self.done.wait(0.05)
                else:
                    assert (stored.id, stored.is_duplicate) == (job.id, False)
                    self.acknowledged.append(job.id)
                    break
        self._store.close()


def test_a_server_that_stops_and_crashes_in_the_middle_of_everything_loses_nothing(
    own_server: PostgresServer, records: list[str]
) -> None:
    url = own_server.fresh_database("jobs")
    ran: Counter[int] = Counter()
    with quick(url, ran) as one, quick(url, ran) as two:
        one.migrate()
        client = Client(url)
        with working(one), working(two):
            client.start()
            for crash in (False, True):
                goal = len(client.acknowledged) + 60
                eventually(lambda goal=goal: len(client.acknowledged) >= goal)
                own_server.stop(crash=crash)
                threading.Event().wait(1.2)
                own_server.start()
            goal = len(client.acknowledged) + 60
            eventually(lambda: len(client.acknowledged) >= goal)
            client.done.set()
            client.join()
            eventually(lambda: not one.store.is_busy(["note", "steady"], waiting_for=["retry"]))
        counts = {kind: dict(states) for kind, states in one.store.counts().items()}
        events = [event for event in _whole_log(one) if event.type == "job.succeeded"]
    assert {state for states in counts.values() for state in states} == {"succeeded"}
    stored = sum(number for states in counts.values() for number in states.values())
    assert len(client.acknowledged) <= stored <= len(client.acknowledged) + 1
    settled = Counter(event.job for event in events)
    assert set(client.acknowledged) <= set(settled)
    assert set(settled.values()) == {1}, "each was settled once"
    assert set(ran) == {int(job) for job in settled}
    # Two workers tell of two outages, or of one if the second comes at once: its begin (by two, if the keeper notices
    # in the same moment) and its end.
    flood = [text for text in records if "the store" in text]
    assert 2 <= len(flood) <= 2 * 2 * 3, flood


def _whole_log(app: App) -> list[Any]:
    events: list[Any] = []
    while page := app.events(after=events[-1].position if events else 0):
        events += page
    return events


def test_a_long_outage_is_logged_once_by_each_process_that_notices(
    own_server: PostgresServer, records: list[str]
) -> None:
    url = own_server.fresh_database("jobs")
    ran: Counter[int] = Counter()
    with quick(url, ran) as app:
        app.migrate()
        with working(app):
            eventually(lambda: app.store.workers())
            own_server.stop()
            threading.Event().wait(2.4)
            told = [text for text in records if "cannot be reached now" in text]
            own_server.start()
            eventually(lambda: any("answers again" in text for text in records))
            assert app.wait(app.tasks["note"].enqueue(1), timeout=SOON) == 1
    assert 1 <= len(told) <= 2, "by the worker, and by its keeper if both noticed in one moment"


def test_a_call_that_finds_all_connections_in_use_says_so_and_the_next_one_gets_its_turn(database: str) -> None:
    with closing(PostgresStore(emptied(database), timeout=timedelta(seconds=1))) as store:
        store.now()
        inside, release = threading.Barrier(connections.MOST_CONNECTIONS + 1), threading.Event()

        def use(_: object) -> None:
            inside.wait(SOON)
            release.wait(SOON)

        users = [
            threading.Thread(target=store._connections.run, args=(use,)) for _ in range(connections.MOST_CONNECTIONS)
        ]
        for user in users:
            user.start()
        inside.wait(SOON)
        with pytest.raises(StoreUnavailable, match="all 10 connections of this process were in use"):
            store.now()
        release.set()
        for user in users:
            user.join()
        assert enqueue(store)
