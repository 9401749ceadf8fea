"""The client of the HTTP API: the verbs of App on a real server, over cut connections too."""

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any

import pytest
from click.testing import CliRunner
from cutting_proxy import CuttingProxy
from stream_server import WebServer, make_app, web_server

from mulligan import App, IllegalMove, JobCancelled, JobFilter, JobNotFound, UnknownKind
from mulligan.cli.root import root
from mulligan.client import Client
from mulligan.errors import (
    BadArgument,
    BatchNotFound,
    ConfigurationError,
    EventsMissed,
    InvalidArguments,
    RedriveNotFound,
    RequestMismatch,
    ServerError,
    UnknownCheck,
    UnknownQueue,
    UnknownService,
)
from mulligan.records.event import Event
from mulligan.records.job import all_pages

# It looks like a key, so it is masked.
SECRET = f"sk_live_{'a1B2' * 8}"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('client')}/jobs.db"


@pytest.fixture(scope="module")
def server(url: str) -> Iterator[WebServer]:
    with web_server(url, mount="/ops") as server:
        yield server


@pytest.fixture
def shop(url: str) -> Iterator[App]:
    with make_app(url) as app:
        yield app


@pytest.fixture
def client(server: WebServer) -> Iterator[Client]:
    with Client(server.base, key="admin", patience="5s") as client:
        yield client


@pytest.fixture
def proxy(server: WebServer) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(server.port)
    yield proxy
    proxy.close()


def test_metrics_of_the_server(client: Client, shop: App) -> None:
    assert {metric.name for metric in client.read_metrics()} == {metric.name for metric in shop.read_metrics()}
    assert "\n# TYPE mulligan_jobs_active gauge\n" in client.metrics()
    assert "\n# TYPE jobs_active gauge\n" in client.metrics(prefix="")
    with pytest.raises(BadArgument):
        client.metrics(prefix="a b")


def test_alerts_are_read_set_and_silenced(client: Client) -> None:
    board = client.alerts()
    assert board.is_stale
    assert "workers.alive" in [alert.check for alert in board.alerts]
    rule = client.set_alert("jobs.depth", threshold=5_000, after="10m", reason="large imports")
    assert (rule.threshold, rule.after.total_seconds(), rule.is_edited) == (5_000, 600, True)
    assert client.silence_alert("jobs.depth", "1h").silenced_until is not None
    assert not client.unsilence_alert("jobs.depth").is_silenced
    assert not client.set_alert("jobs.depth").is_edited
    with pytest.raises(UnknownCheck, match=r"did you mean 'jobs\.depth'"):
        client.silence_alert("jobs.dept")


def test_records_are_those_of_the_app(client: Client, shop: App) -> None:
    job = client.enqueue("greet", {"name": "Ada"}, tags=["eu"], delay="1h")
    assert job == shop.job(job.id) == client.job(job.id)
    assert client.jobs(JobFilter(ids=[job.id])) == shop.jobs(JobFilter(ids=[job.id]))
    assert client.counts(JobFilter(tag="eu"), by="kind") == shop.counts(JobFilter(tag="eu"), by="kind")
    assert client.events(job.id) == shop.events(job.id)
    assert client.stream(after=0, job=job.id) == shop.stream(job=job.id)
    assert client.explain(job.id).next == shop.explain(job.id).next
    assert client.find_id("job", job.id[-8:]) == job.id
    assert client.last_position() == shop.last_position()
    assert client.queue_position(job.id) is None
    assert client.last_failures([job.id]) == {}


def test_more_ids_than_a_url_holds_are_asked_for_in_parts(client: Client, server: WebServer, shop: App) -> None:
    draft = shop.batch("draft")
    jobs = draft.add(*(shop.tasks["greet"].bind(str(number)) for number in range(450)))
    wanted = JobFilter(ids=[job.id for job in jobs])
    pages = list(all_pages(partial(client.jobs, wanted, limit=200)))
    assert [len(page.jobs) for page in pages] == [200, 200, 50]
    assert [job for page in pages for job in page.jobs] == list(shop.jobs(wanted, limit=450).jobs)
    assert client.blocked_by(jobs) == shop.blocked_by(jobs)
    assert len(client.blocked_by(jobs)) == 450
    assert client.counts(wanted, by="kind") == shop.counts(wanted, by="kind")
    assert [one.job.id for one in client.export(wanted)] == [one.job.id for one in shop.export(wanted)]
    assert client.last_failures([job.id for job in jobs]) == {}
    listed = run("jobs", "list", "--limit", "500", "--json", "--server", server.base, "--key", "admin")
    assert listed.exit_code == 0 and len(json.loads(listed.output)["jobs"]) >= 450
    client.cancel_batch(draft.id)


def test_moves_change_jobs(client: Client, shop: App) -> None:
    job = client.enqueue("greet", {"name": "Ada"})
    assert client.snooze(job.id, "1h", reason="later").due_at == shop.job(job.id).due_at
    assert client.run_now(job.id).state == "queued"
    assert client.cancel(job.id).state == "cancelled"
    with pytest.raises(JobCancelled):
        client.wait(job)
    assert client.retry(job.id, reason="again").state == "queued"
    assert {event.actor for event in shop.events(job.id)} == {None, "key admin"}
    shop.run_until_idle()
    assert client.wait(job, timeout="5s") == "Hello, Ada"
    assert client.expire_result(job.id).result_expired_at is not None


def test_secrets_are_shown_if_the_client_asks_for_them(client: Client, server: WebServer) -> None:
    job = client.enqueue("greet", {"name": SECRET})
    assert SECRET not in repr(client.job(job.id)) and SECRET not in repr(client.jobs(limit=1))
    with Client(server.base, key="admin", reveal=True) as asking:
        assert asking.job(job.id).arguments == {"name": SECRET}
        assert asking.jobs(limit=1).jobs[0].arguments == {"name": SECRET}
        assert next(asking.export(JobFilter(ids=[job.id]))).job.arguments == {"name": SECRET}
    shown = CliRunner().invoke(root, ["--server", server.base, "--key", "admin", "jobs", "show", job.id, "--reveal"])
    assert SECRET in shown.output


def test_wait_returns_the_result_in_clear_if_the_key_allows_it(client: Client, server: WebServer, shop: App) -> None:
    job = client.enqueue("greet", {"name": SECRET})
    with Client(server.base, key="blind") as blind:
        masked = blind.enqueue("greet", {"name": SECRET})
        shop.run_until_idle()
        assert SECRET not in blind.wait(masked) and blind.wait(masked).startswith("Hello, ")
    assert client.wait(job) == f"Hello, {SECRET}"


def test_batches_have_their_verbs(client: Client, shop: App) -> None:
    batch = client.batch("import", success_at=0.5)
    (member,) = batch.add({"kind": "greet", "arguments": {"name": "x"}})
    published = batch.publish()
    assert (published.state, published.total) == ("processing", 1)
    assert client.find_batch(batch.id) == shop.find_batch(batch.id)
    assert [one.id for one in client.batches(limit=1)] == [batch.id]
    assert published.cancel().cancelled == 1
    retried = client.retry_batch(batch.id, cancelled=True)
    assert retried.jobs == (member.id,) and retried.batch.refresh().state == "processing"
    client.cancel_batch(batch.id)
    told = client.history(batch=batch.id)
    assert told == shop.history(batch=batch.id) and told[-1].type == "batch.published"
    with pytest.raises(BatchNotFound):
        client.history(batch="none")


def test_jobs_are_exported_purged_and_taken_from_their_workers(client: Client, shop: App, url: str) -> None:
    job = client.enqueue("greet", {"name": "old"}, tags=["export"])
    shop.run_until_idle()
    wanted = JobFilter(tag="export")
    assert list(client.export(wanted)) == list(shop.export(wanted))
    (exported,) = client.export(wanted, events=True)
    assert exported.events == tuple(shop.events(job.id))
    assert client.purge(wanted, older_than="0s").piles == shop.purge(wanted, older_than="0s").piles
    done = client.purge(JobFilter(ids=[job.id]), older_than="0s", dry_run=False, reason="test")
    assert (done.purged, done.is_dry) == (1, False)
    assert list(client.export(wanted)) == []
    assert client.stuck() == client.process_stuck() == []
    with pytest.raises(ServerError), Client(client._server.url, key=None) as anonymous:
        list(anonymous.export())


def test_a_task_follows_a_batch(client: Client, shop: App) -> None:
    batch = client.batch("import", on_settled="report")
    batch.add({"kind": "greet", "arguments": {"name": "x"}})
    batch.publish()
    shop.run_until_idle()
    (follow_up,) = client.jobs(JobFilter(kind="report")).jobs
    assert client.wait(follow_up) == f"batch {batch.id} is over"
    with pytest.raises(UnknownKind):
        client.batch("import", on_settled="missing")


def test_redrives_services_and_pauses(client: Client, shop: App) -> None:
    job = client.enqueue("greet", {"name": "x"}, delay="1h")
    begun = client.bulk("cancel", ids=[job.id], reason="wrong")
    assert begun.matched == 1 and client.redrive_status(begun.id).verb == "cancel"
    assert client.cancel_redrive(begun.id).state == "cancelled"
    assert begun.id in [one.id for one in client.redrives()]
    assert client.redrive(JobFilter(state="failed"), dry_run=True).is_dry
    paused = client.pause("30m", queue="default", reason="maintenance")
    assert client.pauses() == shop.pauses() == [paused]
    assert client.resume(queue="default") == paused
    assert client.resume(queue="default") is None
    assert client.services() == shop.services()
    assert client.workers() == shop.workers()


def test_errors_are_those_of_the_app(client: Client) -> None:
    with pytest.raises(JobNotFound, match="there is no job") as missing:
        client.job("none")
    assert missing.value.job_id == "none"
    with pytest.raises(BatchNotFound):
        client.find_batch("none")
    with pytest.raises(RedriveNotFound):
        client.redrive_status("none")
    with pytest.raises(UnknownKind):
        client.enqueue("none")
    with pytest.raises((InvalidArguments, BadArgument)):
        client.enqueue("greet", {"nme": "x"})
    with pytest.raises(BadArgument):
        client.jobs(limit=5_000)
    with pytest.raises(UnknownQueue):
        client.pause(queue="none")
    with pytest.raises(UnknownService):
        client.service("none").open()
    job = client.enqueue("greet", {"name": "x"}, delay="1h")
    client.cancel(job.id)
    with pytest.raises(IllegalMove, match="it is cancelled"):
        client.cancel(job.id)
    with pytest.raises(RequestMismatch):
        client.enqueue("greet", {"name": "y"}, request_id="once")
        client.enqueue("greet", {"name": "z"}, request_id="once")


def test_what_an_app_does_not_know_is_a_server_error(server: WebServer) -> None:
    with pytest.raises(ServerError) as refused:
        read_jobs(server.base)
    assert refused.value.status == 401
    with pytest.raises(ServerError) as missing:
        read_jobs(server.base + "/elsewhere", key="admin")
    assert missing.value.status == 404
    with pytest.raises(ServerError, match="cannot be reached"):
        read_jobs("http://127.0.0.1:9", patience="0s")


def read_jobs(url: str, **options: Any) -> None:
    with Client(url, **options) as client:
        client.jobs()


@pytest.mark.parametrize("bad", ["ftp://x", "x", "https://user:secret@x", "https://x?key=1"])
def test_a_url_that_cannot_work_is_refused_without_being_repeated(bad: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Client(bad)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("bad", ["mk_…", "mk_a b", "mk_a\r\nX-Other: 1", ""])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(bad: str) -> None:
    with pytest.raises(ConfigurationError, match="letters, digits and underscores") as refused:
        Client("https://jobs.example.org", key=bad)
    assert not bad or bad not in str(refused.value).replace("'mk_…'", "")


def test_the_key_is_not_shown() -> None:
    assert "topsecret" not in repr(Client("https://x", key="topsecret")) + repr(
        Client("https://x", key="topsecret")._server
    )


# Cut connections


@pytest.mark.parametrize("cuts", [["reply"], ["request"], ["reply", "request", "reply"]])
def test_a_change_whose_reply_was_cut_is_carried_out_once(proxy: CuttingProxy, shop: App, cuts: list[str]) -> None:
    before = shop.counts().total
    client = Client(f"{proxy.url}/ops", key="admin", patience="10s")
    proxy.cuts = list(cuts)
    job = client.enqueue("greet", {"name": "x"}, delay="1h")
    assert shop.counts().total == before + 1
    proxy.cuts = list(cuts)
    client.close()
    client.cancel(job.id)
    assert [event.type for event in shop.events(job.id)].count("job.cancelled") == 1
    client.close()
    assert proxy.cuts == []


def test_a_call_gives_up_after_its_patience(proxy: CuttingProxy) -> None:
    client = Client(f"{proxy.url}/ops", key="admin", patience="300ms")
    proxy.cuts = ["request"] * 100
    began = time.monotonic()
    with pytest.raises(ServerError, match="cannot be reached"):
        client.jobs()
    assert time.monotonic() - began < 5


PAGE = b"<html>from a proxy</html>"
LIMITED = b'{"code": "RATE_LIMITED", "message": "too many requests"}'
MISSING = b'{"code": "JOB_NOT_FOUND", "message": "there is no job"}'


def answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status} x", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(head).encode() + body


@contextmanager
def canned(answers: list[bytes]) -> Iterator[tuple[Client, list[float]]]:
    """A client of a server with these answers, and how long it waits between them. It does not really wait."""

    def serve() -> None:
        left = list(answers)
        while left:
            near, _ = listener.accept()
            with near, suppress(OSError):
                while left and near.recv(65536):
                    near.sendall(left.pop(0))

    waits: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        with Client(f"http://127.0.0.1:{listener.getsockname()[1]}", patience="30s") as client:
            object.__setattr__(client._server, "pause", waits.append)
            yield client, waits


def test_a_call_waits_as_long_as_the_server_asks() -> None:
    answers = [answer(429, b"", "Retry-After: 1"), answer(503, b"", "Retry-After: 2"), answer(200, b'{"pauses": []}')]
    with canned(answers) as (client, waits):
        assert client.pauses() == []
    assert waits == [1.0, 2.0]


def test_a_call_is_repeated_while_the_server_behind_a_proxy_is_away() -> None:
    away = [answer(status, PAGE) for status in (502, 503, 504)]
    with canned([*away, answer(200, b'{"pauses": []}')]) as (client, waits):
        assert client.pauses() == []
    assert [0.05 <= wait / 2**number <= 0.15 for number, wait in enumerate(waits)] == [True] * 3
    with (
        canned([answer(502, PAGE, "Retry-After: 31")]) as (client, waits),
        pytest.raises(ServerError, match="answered with 502") as failed,
    ):
        client.pauses()
    assert (failed.value.status, waits) == (502, [])


# Events


def test_following_survives_a_killed_server_without_gap_or_repeat(url: str, shop: App) -> None:
    after = shop.last_position()
    with web_server(url) as server:
        client = Client(server.base, key="admin", patience="60s")
        stream = client.follow(after=after)
        found: list[Any] = []
        for round_ in range(2):
            shop.enqueue_many([shop.tasks["greet"].options(delay="1h").bind("x") for _ in range(30)])
            found += islice(stream, 20)
            server.stop(signal.SIGKILL)
            restart = threading.Timer(0.5, server.start)
            restart.start()
            found += islice(stream, 10 if round_ else 5)
            restart.join()
        found += islice(stream, 60 - len(found))
        stream.close()
    assert [event.position for event in found if isinstance(event, Event)] == [
        event.position for event in shop.events(after=after)
    ]


def test_following_from_another_log_says_so(client: Client, shop: App) -> None:
    with pytest.raises(EventsMissed) as missed:
        next(client.follow(after=10**9))
    assert (missed.value.reason, missed.value.position) == ("unknown_position", shop.last_position())


def test_following_what_is_not_there_is_an_error(client: Client) -> None:
    with pytest.raises(JobNotFound):
        next(client.follow(job="none"))


def test_following_waits_as_long_as_the_server_asks() -> None:
    limited = answer(429, LIMITED, "Retry-After: 10")
    with (
        canned([limited, answer(429, PAGE), limited, answer(404, MISSING)]) as (client, waits),
        pytest.raises(JobNotFound),
    ):
        next(client.follow())
    assert (waits[0], waits[1] <= 0.15, waits[2:]) == (10.0, True, [10.0])


def test_following_says_why_the_server_refuses_for_longer_than_the_patience() -> None:
    with (
        canned([answer(429, LIMITED, "Retry-After: 31")]) as (client, waits),
        pytest.raises(ServerError, match="too many requests") as refused,
    ):
        next(client.follow())
    assert (refused.value.status, refused.value.code, waits) == (429, "RATE_LIMITED", [])


@pytest.mark.parametrize("status", [200, 301, 404])
def test_following_at_a_wrong_url_is_an_error_of_the_server(status: int) -> None:
    with (
        canned([answer(status, PAGE, "Content-Type: text/html")]) as (client, waits),
        pytest.raises(ServerError) as failed,
    ):
        next(client.follow())
    assert (failed.value.status, waits) == (status, [])


# The commands


def run(*args: str, **environment: str) -> Any:
    return CliRunner().invoke(root, list(args), env=environment)


def test_commands_work_against_a_server(server: WebServer, shop: App) -> None:
    job = shop.tasks["greet"].options(delay="1h").enqueue("x").id
    here = {"MULLIGAN_SERVER": server.base, "MULLIGAN_KEY": "admin"}
    for command in (
        ["jobs", "list"],
        ["jobs", "show", job],
        ["jobs", "explain", job[-8:]],
        ["jobs", "counts"],
        ["jobs", "run-now", job],
        ["jobs", "position", job],
        ["jobs", "last-failures", job],
        ["jobs", "cancel", job, "--reason", "wrong"],
        ["jobs", "purge", "--older-than", "1d"],
        ["jobs", "stuck"],
        ["jobs", "process-stuck"],
        ["workers"],
        ["batches"],
        ["redrive", "list"],
        ["redrive", "--state", "failed", "--preview"],
        ["bulk", "cancel", "--kind", "greet", "--preview"],
        ["services"],
        ["pause", "--queue", "default", "--for", "1m"],
        ["pauses"],
        ["resume", "--queue", "default"],
        ["events"],
        ["events", "--job", job],
    ):
        for more in ([], ["--json"]):
            if more and command[:2] in (["jobs", "cancel"], ["jobs", "run-now"]):
                continue
            done = run(*command, *more, **here)
            assert done.exit_code == 0, (command, done.output)
            if more:
                json.loads(done.output)
    assert shop.job(job).state == "cancelled"
    exported = run("jobs", "export", "--id", job, **here)
    assert exported.exit_code == 0 and json.loads(exported.output)["id"] == job


def test_the_same_command_says_the_same_by_database_and_by_server(server: WebServer, url: str, shop: App) -> None:
    job = shop.tasks["greet"].options(delay="1h").enqueue("x").id
    for command in (["jobs", "show", job], ["jobs", "list"], ["events", "--job", job], ["jobs", "explain", job]):
        by_database = [json.loads(run(*command, "--json", "--database", url).output)]
        by_server = json.loads(run(*command, "--json", "--server", server.base, "--key", "admin").output)
        by_database.append(json.loads(run(*command, "--json", "--database", url).output))
        # Before and after: `explain` has times such as "in 59m 58s".
        assert by_server in by_database, command


@pytest.mark.parametrize(
    "command",
    [["keys", "list"], ["audit"], ["doctor"], ["migrate"], ["limits"], ["duties"], ["schedules"], ["worker"]],
)
def test_other_commands_refuse_a_server(server: WebServer, command: list[str]) -> None:
    done = run(*command, "--server", server.base, "--key", "topsecret")
    assert done.exit_code == 2
    assert "cannot use a server" in done.output and "topsecret" not in done.output


def test_a_server_and_a_database_cannot_both_be_meant(server: WebServer, url: str, shop: App) -> None:
    shop.check_store()
    assert run("jobs", "list", "--server", server.base, "--database", url).exit_code == 2
    # What the command line names comes before the environment.
    assert run("jobs", "list", "--database", url, MULLIGAN_SERVER="http://127.0.0.1:9").exit_code == 0


def test_exit_codes_are_those_of_the_database(server: WebServer) -> None:
    there = ("--server", server.base, "--key", "admin")
    assert run("jobs", "show", "0" * 36, *there).exit_code == 4
    assert run("jobs", "list", "--server", server.base).exit_code == 5
