"""The event log of PostgreSQL: no gap whatever commits when, whole transactions, and nothing a crash could undo."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from postgres_server import PostgresServer, emptied, postgres_server
from transactions import enqueue_on, held, on, promote_on

from conformance.bench import KIND, MINUTE, SECOND, Bench, failing, retrying
from conformance.invariants import read_stream
from mulligan import App, attempt
from mulligan.cli.root import root
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import Move, State
from mulligan.records.batch import BatchRetry, NewBatch
from mulligan.records.event import Event, EventFilter
from mulligan.records.job import Job, Lease, NewJob
from mulligan.records.limit import LimitBook
from mulligan.records.pause import PauseRequest
from mulligan.store.messages import Claim, Outcome, Request, Settled
from mulligan.store.postgres import PostgresStore


class TestLog(Bench):
    url: str
    store: PostgresStore

    @pytest.fixture(autouse=True)
    def _a_database(self, database: str) -> None:
        self.url = emptied(database)

    def open_store(self, now: Callable[[], datetime]) -> PostgresStore:
        return PostgresStore(self.url + "?notify=off", now=now)

    open_twin = open_store

    def pages(self, limit: int, after: int = 0, **options: Any) -> list[list[Event]]:
        """The events that a reader gets if it keeps the position of the last one."""
        pages: list[list[Event]] = []
        while page := self.store.events(after=after, limit=limit, **options):
            pages.append(page)
            after = page[-1].position
        return pages

    def test_a_reader_does_not_pass_an_event_that_is_not_committed_yet(self) -> None:
        early, first = self.enqueue().id, self.new()
        with held(self.url) as other:
            enqueue_on(other, self.store, first)
            later = [self.enqueue().id for _ in range(3)]
            (read,) = self.pages(100)
            assert [event.job for event in read] == [early]
            assert self.store.events(after=read[-1].position) == []
            other.commit()
        rest = self.store.events(after=read[-1].position)
        assert [event.job for event in rest] == [first.id, *later]

    @pytest.mark.parametrize(("written", "shown"), [((1, 60), [60]), ((1, 40, 30), [40, 30]), ((1, 60, 1), [60, 1])])
    def test_the_command_shows_the_newest_also_if_many_were_written_at_once(
        self, written: tuple[int, ...], shown: list[int]
    ) -> None:
        for number in written:
            self.store.enqueue([self.new() for _ in range(number)])
        answer = CliRunner().invoke(root, ["--json", "events", "--database", self.url])
        found = json.loads(answer.stdout)["events"]
        positions = [event["position"] for event in found]
        assert [positions.count(position) for position in dict.fromkeys(positions)] == shown

    def test_an_event_that_is_rolled_back_delays_no_reader(self) -> None:
        with held(self.url) as other:
            enqueue_on(other, self.store, self.new())
            later = self.enqueue().id
            assert self.store.events() == []
            other.rollback()
        assert [event.job for event in self.store.events()] == [later]

    def test_a_reader_that_begins_at_the_newest_event_misses_none_that_commits_later(self) -> None:
        first = self.new()
        with held(self.url) as other:
            enqueue_on(other, self.store, first)
            later = self.enqueue().id
            begin = self.store.last_position()
            other.commit()
        assert {event.job for event in self.store.events(after=begin)} == {first.id, later}

    def test_a_reader_among_many_transactions_gets_each_event_once_and_in_order(self) -> None:
        seen: list[Event] = []

        def read() -> None:
            seen.extend(event for page in self.pages(2, seen[-1].position if seen else 0) for event in page)

        with held(self.url) as one, held(self.url) as two, held(self.url) as three:
            transactions = [one, two, three]
            for transaction in transactions:
                enqueue_on(transaction, self.store, self.new())
                self.enqueue()
                read()
            for transaction in (two, three, one):
                enqueue_on(transaction, self.store, self.new())
                transaction.commit()
                self.enqueue()
                read()
        with psycopg.connect(self.url) as connection:
            stored = connection.execute("SELECT job FROM mulligan_events ORDER BY xid, seq").fetchall()
        assert [(event.job,) for event in seen] == stored
        assert len(seen) == 12

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 100])
    def test_a_page_holds_whole_transactions_and_the_pages_hold_everything(self, limit: int) -> None:
        sizes = [2, 1, 5, 1, 1, 3]
        for size in sizes:
            self.store.enqueue([self.new(owner="acme" if size > 1 else "") for _ in range(size)])
        pages = self.pages(limit)
        ends = {sum(sizes[:number]) for number in range(len(sizes) + 1)}
        read = 0
        for page in pages:
            assert read in ends
            read += len(page)
            assert len({event.position for event in page}) == 1 or len(page) <= limit
        assert read == sum(sizes)
        assert sum(len(page) for page in self.pages(limit, owner="acme")) == 10

    def test_a_long_transaction_elsewhere_delays_the_stream_and_no_job(self) -> None:
        self.enqueue()
        before = self.store.events()
        with held(self.url) as other:
            other.begin().execute("SELECT pg_current_xact_id()")
            job = self.enqueue()
            (_, lease) = self.claim()
            assert self.settle(lease, Succeed("1")) is Settled.ACCEPTED
            waiting = self.move(Move.MANUAL_SNOOZE, self.enqueue().id, delay=SECOND)
            self.move(Move.RUN_NOW, waiting.id)
            assert len(self.claim(by="w2")) == 1
            assert self.job(job.id).state is State.SUCCEEDED
            assert self.types(job.id) == ["job.enqueued", "job.started", "job.succeeded"], "of one job, at once"
            assert self.store.events(after=before[-1].position) == []
        assert len(self.store.events(after=before[-1].position)) == 9

    def test_a_held_snapshot_hides_nothing_from_others(self) -> None:
        with held(self.url) as other:
            other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT count(*) FROM mulligan_jobs")
            job = self.enqueue()
            self.settle(self.claim()[0], Succeed("1"))
            assert [event.type for event in self.store.events()] == ["job.enqueued", "job.started", "job.succeeded"]
            assert self.job(job.id).state is State.SUCCEEDED

    @pytest.mark.parametrize("is_paused", [False, True], ids=["pass", "are parked at"])
    def test_a_job_enqueued_during_a_promotion_is_not_started_before_it_was_enqueued(
        self, *, is_paused: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The claim would have an older transaction id than the job it takes."""
        if is_paused:
            self.store.pause(PauseRequest(id="p", what="duty", name="promote"))
        self.enqueue(delay=SECOND)
        self.advance(MINUTE)
        promote, other = self.store._backend._promote.promote, self.twin()

        def promote_slowly(*given: Any, **named: Any) -> Any:
            answer = promote(*given, **named)
            other.enqueue([self.new()])
            return answer

        monkeypatch.setattr(self.store._backend._promote, "promote", promote_slowly)
        assert len(self.claim()) == 1 + (not is_paused)
        monkeypatch.undo()
        types: dict[str, list[str]] = {}
        for event in self.store.events():
            types.setdefault(event.job, []).append(event.type)
        types.pop("", None)
        delayed = ["job.enqueued"] if is_paused else ["job.enqueued", "job.queued", "job.started"]
        assert list(types.values()) == [delayed, ["job.enqueued", "job.started"]]

    # A transaction that was open before a job came, and finds it in one of its later statements

    def told_by_older(self, find: Callable[[Any], Job[Any]]) -> list[str]:
        """What the stream tells of the job from then on, to a reader with small pages."""
        before = self.store.last_position()
        with held(self.url) as older:
            older.begin().execute("SELECT pg_current_xact_id()")
            job = find(older)
            assert self.store.events(after=before) == [], "it could still write anything"
            older.commit()
        told = [event for page in self.pages(1, before) for event in page if event.job == job.id]
        assert told == self.events(job.id)[-len(told) :]
        return [event.type for event in told]

    def test_an_older_transaction_promotes_a_newer_job(self) -> None:
        def find(older: Any) -> Job[Any]:
            job = self.enqueue(delay=SECOND)
            self.advance(SECOND)
            promote_on(self.store, older)
            return job

        assert self.told_by_older(find) == ["job.enqueued", "job.queued"]

    def test_an_older_transaction_promotes_a_retry_after_its_failure(self) -> None:
        job = self.enqueue()
        (lease,) = self.claim()

        def find(older: Any) -> Job[Any]:
            self.settle(lease, retrying(SECOND))
            self.advance(SECOND)
            promote_on(self.store, older)
            return job

        assert self.told_by_older(find) == ["job.retried", "job.queued"]

    def test_an_older_transaction_gives_a_slot_to_a_newer_job(self) -> None:
        self.store.limit_by(lambda: LimitBook(kinds={KIND: 1}))
        self.claim("nothing")

        def find(older: Any) -> Job[Any]:
            job = self.enqueue()
            promote_on(self.store, older)
            return job

        assert self.told_by_older(find) == ["job.enqueued", "job.queued"]
        self.lift()

    def test_an_older_transaction_takes_a_job_back_for_a_new_limit_after_it_came(self) -> None:
        self.store.enqueue([self.new()])

        def find(older: Any) -> Job[Any]:
            job = self.enqueue()
            self.store.limit_by(lambda: LimitBook(kinds={KIND: 1}))
            promote_on(self.store, older)
            return job

        assert self.told_by_older(find) == ["job.enqueued", "job.parked"]
        self.lift()

    def test_an_older_transaction_moves_a_job_after_it_came(self) -> None:
        def find(older: Any) -> Job[Any]:
            job = self.enqueue()
            on(self.store, older).move(self.request(Move.MANUAL_CANCEL, job.id))
            return job

        assert self.told_by_older(find) == ["job.enqueued", "job.cancelled"]

    def test_an_older_transaction_retries_members_after_they_failed(self) -> None:
        batch = self.store.create_batch(NewBatch(id=self.ids(), name="spring"))
        job = self.enqueue(batch=batch.id)
        self.store.publish(batch.id)
        (lease,) = self.claim()

        def find(older: Any) -> Job[Any]:
            self.settle(lease, failing())
            wish = BatchRetry(id=self.ids(), batch=batch.id, jobs=(job.id,))
            on(self.store, older).retry_members(wish)
            return job

        assert self.told_by_older(find) == ["job.failed", "job.retry_requested"]

    def test_a_request_to_cancel_during_a_settle_stands_before_the_end(self) -> None:
        for decision in (Succeed("1"), failing()):
            first, second = self.leased(), self.leased()
            before = self.store.last_position()
            with held(self.url) as settling:
                # The settle has its transaction id before it comes to the second job.
                settling.begin().execute("SELECT pg_current_xact_id()")
                self.move(Move.MANUAL_CANCEL, second.fence.id)
                outcomes = [Outcome(lease, decision) for lease in (first, second)]
                assert on(self.store, settling).settle(outcomes) == [Settled.ACCEPTED] * 2
                settling.commit()
            told = [event.type for page in self.pages(1, before) for event in page if event.job == second.fence.id]
            assert told == [event.type for event in self.events(second.fence.id)][-2:]
            assert told[0] == "job.cancel_requested"
            wanted = EventFilter(job=second.fence.id)
            assert [event.type for event in read_stream(self.store, wanted, after=before)] == told

    def test_a_filtered_reader_does_not_pass_an_event_that_is_not_committed_yet(self) -> None:
        wanted = EventFilter(owner="acme")
        with held(self.url) as other:
            enqueue_on(other, self.store, self.new(owner="acme"))
            later = self.enqueue(owner="acme").id
            self.enqueue(owner="other")
            page = self.store.stream(wanted)
            assert (page.events, page.is_end) == ((), True)
            other.commit()
        rest = read_stream(self.store, wanted, after=page.position)
        assert [event.job for event in rest][1:] == [later] and len(rest) == 2

    def test_events_deleted_while_a_page_is_read_are_reported(self) -> None:
        self.in_state(State.SUCCEEDED)
        self.advance(MINUTE)
        read = self.store._events._read

        def prune_first(*args: Any) -> Any:
            assert self.store.prune(State.SUCCEEDED, before=self.now, limit=10) == 1
            return read(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.store._events, "_read", prune_first)
            page = self.store.stream(EventFilter())
        assert (page.events, page.is_pruned) == ((), True)

    def lift(self) -> None:
        self.store.limit_by(LimitBook)
        for _ in range(3):
            self.claim("nothing")


# A crash: only what was asked to be on disk is there


@pytest.fixture(scope="module")
def fragile() -> Iterator[PostgresServer]:
    """A server in which only its log writer writes asynchronous commits to disk."""
    with postgres_server(wal_writer_flush_after="1GB", bgwriter_delay="10s", autovacuum="off") as server:
        yield server


class Crashing:
    """A store, and a server that can crash. Its log writer is stopped, or a claim might be on disk after all."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.url = server.fresh_database("crashing") + "?notify=off"
        self.store = PostgresStore(self.url)
        self.store.migrate()
        self._stop_writer()

    def crash(self) -> None:
        self.store.close()
        os.kill(self._writer, signal.SIGQUIT)
        os.kill(self._writer, signal.SIGCONT)
        self._server.stop(crash=True)
        self._server.start()
        self._stop_writer()
        self.store = PostgresStore(self._server.url("crashing") + "?notify=off")

    def _stop_writer(self) -> None:
        with psycopg.connect(self._server.url()) as connection:
            found = connection.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").fetchone()
        assert found is not None
        (self._writer,) = found
        os.kill(self._writer, signal.SIGSTOP)

    def close(self) -> None:
        os.kill(self._writer, signal.SIGCONT)
        self.store.close()

    def enqueue(self, *ids: str) -> None:
        self.store.enqueue([NewJob(id=name, kind="send", arguments="{}") for name in ids])

    def claim(self, by: str, number: int = 1) -> list[Lease]:
        claim = Claim(incarnation=by, number=number, kinds=["send"], limit=9, lease=timedelta(minutes=1))
        return self.store.claim(claim).leases

    def settle(self, lease: Lease, result: str) -> Settled:
        (answer,) = self.store.settle([Outcome(lease, Succeed(result))])
        return answer


@pytest.fixture
def crashing(fragile: PostgresServer) -> Iterator[Crashing]:
    crashing = Crashing(fragile)
    yield crashing
    crashing.close()


def test_a_claim_lost_in_a_crash_is_made_again_and_the_stale_settle_is_refused(crashing: Crashing) -> None:
    crashing.enqueue("job")
    (stale,) = crashing.claim("w1")
    crashing.crash()
    job = crashing.store.job("job")
    assert (job.state, job.attempt) == (State.QUEUED, 0), "the claim is lost"
    (lease,) = crashing.claim("w2")
    assert stale.fence.attempt == lease.fence.attempt == 1, "the number alone would not tell them apart"
    assert crashing.settle(stale, '"stale"') is Settled.REFUSED
    assert crashing.settle(lease, '"right"') is Settled.ACCEPTED
    assert crashing.store.job("job").result == "right"


def test_a_claim_that_was_secured_outlives_a_crash_and_its_number_is_not_given_again(crashing: Crashing) -> None:
    crashing.enqueue("job")
    (lease,) = crashing.claim("w1")
    assert crashing.store.secure(lease.fence)
    crashing.crash()
    assert (crashing.store.job("job").state, crashing.store.job("job").attempt) == (State.RUNNING, 1)
    assert crashing.store.secure(lease.fence)


def test_a_task_that_runs_at_most_once_does_not_begin_on_a_claim_that_a_crash_can_lose(crashing: Crashing) -> None:
    runs: list[int] = []
    with App(crashing.url) as app:

        @app.task(at_most_once=True)
        def pay() -> str:
            runs.append(attempt().number)
            if len(runs) == 1:
                crashing.crash()
            return "paid"

        job = pay.enqueue()
        app.run_until_idle(timeout="60s")
        assert (runs, app.job(job.id).result) == ([1], "paid")


def test_the_same_worker_that_claims_again_after_a_crash_is_fenced_by_its_claim_number(crashing: Crashing) -> None:
    crashing.enqueue("job")
    (stale,) = crashing.claim("w", 1)
    crashing.crash()
    (lease,) = crashing.claim("w", 2)
    assert crashing.settle(stale, "1") is Settled.REFUSED
    assert crashing.settle(lease, "2") is Settled.ACCEPTED


def test_what_was_read_from_the_log_is_still_there_after_a_crash(crashing: Crashing) -> None:
    crashing.enqueue("job")
    crashing.claim("w")
    read = crashing.store.events()
    assert [event.type for event in read] == ["job.enqueued", "job.started"]
    crashing.crash()
    assert crashing.store.events() == read


def test_no_new_event_hides_below_a_position_that_was_read_before_a_crash(crashing: Crashing) -> None:
    crashing.enqueue("job")
    crashing.claim("w")
    told = crashing.store.last_position()
    crashing.crash()
    crashing.enqueue("new")
    assert [event.job for event in crashing.store.events(after=told)] == ["new"]


def test_an_enqueue_a_settle_and_a_manual_move_survive_a_crash(crashing: Crashing) -> None:
    crashing.enqueue("settled", "cancelled")
    leases = {lease.fence.id: lease for lease in crashing.claim("w")}
    assert crashing.settle(leases["settled"], "1") is Settled.ACCEPTED
    crashing.crash()
    assert crashing.store.job("settled").state is State.SUCCEEDED
    crashing.store.move(Request(id="r", move=Move.MANUAL_CANCEL, job="cancelled"))
    crashing.crash()
    assert crashing.store.job("cancelled").cancel_requested
    crashing.enqueue("last")
    crashing.crash()
    assert crashing.store.job("last").state is State.QUEUED
