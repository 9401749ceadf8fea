"""The demo with the real command, real processes and a real database."""

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import groupby
from pathlib import Path

import pytest
from rich.console import Console

from mulligan import App, Failure
from mulligan.cli.demo import tasks
from mulligan.cli.demo.faults import ROUND, WORDS, FaultPlan, Phase
from mulligan.cli.demo.gateway import Gateway
from mulligan.cli.demo.incidents import Incident, Weight, describe_event
from mulligan.cli.demo.processes import DemoProcesses
from mulligan.cli.demo.producer import submit
from mulligan.cli.demo.summary import sum_up
from mulligan.cli.demo.view import Snapshot, lengths, most_notable, picture
from mulligan.lifecycle import State
from mulligan.records.event import Event

NOW = datetime(2025, 1, 1, tzinfo=UTC)
SECONDS = 5


@dataclass(frozen=True)
class Played:
    """A demo that has ended."""

    process: subprocess.CompletedProcess[str]
    folder: Path

    def number(self, name: str) -> int:
        found = re.search(rf"^  {name} +(\d+)", self.process.stdout, re.MULTILINE)
        assert found, self.process.stdout
        return int(found[1])

    def command(self, words: str) -> list[str]:
        found = re.search(rf"^  (\S.* --database .*{words}.*)$", self.process.stdout, re.MULTILINE)
        assert found, self.process.stdout
        return shlex.split(found[1])

    @property
    def url(self) -> str:
        command = self.command("jobs list")
        return command[command.index("--database") + 1]

    def ask(self, statement: str) -> dict[str, int]:
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as database:
            return dict(database.execute(statement).fetchall())


def demo(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mulligan", "demo", *arguments]


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=30
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder, kept = tmp_path_factory.mktemp("elsewhere"), tmp_path_factory.mktemp("kept")
    return Played(run(demo("--seconds", str(SECONDS)), folder, TMPDIR=str(kept)), folder)


@pytest.mark.xdist_group("demo")
class TestTheCommand:
    def test_no_job_is_lost_and_the_summary_says_so(self, played: Played) -> None:
        assert played.process.returncode == 0, played.process.stderr
        assert played.process.stderr == ""
        assert played.number("jobs lost") == 0

    def test_a_log_gets_a_line_about_every_second(self, played: Played) -> None:
        lines = re.findall(r"^ *\d+s gateway \w+ · .*$", played.process.stdout, re.MULTILINE)
        assert SECONDS - 2 <= len(lines) <= SECONDS + 1
        assert "\x1b" not in played.process.stdout

    def test_the_summary_agrees_with_the_database(self, played: Played) -> None:
        states = played.ask("SELECT state, count(*) FROM mulligan_jobs GROUP BY state")
        events = played.ask("SELECT type, count(*) FROM mulligan_events GROUP BY type")
        lost = played.ask("SELECT type, count(*) FROM mulligan_events WHERE code = 'WORKER_LOST' GROUP BY type")
        assert played.number("accepted") == sum(states.values()) > 20
        assert played.number("succeeded") == states["succeeded"] == events["job.succeeded"]
        assert played.number("failed") == states["failed"]
        assert played.number("unfinished") == sum(states.values()) - states["succeeded"] - states["failed"]
        assert played.number("retries") == events["job.retried"] > 0
        assert played.number("rate limit waits") == events["job.snoozed"] > 0
        assert played.number("taken back") == lost.get("job.released", 0)

    def test_no_process_is_left_behind(self, played: Played) -> None:
        assert "of 1 worker killed with SIGKILL" in played.process.stdout
        assert processes_that_know(played.url) == []
        assert list(played.folder.iterdir()) == []

    def test_the_proposed_commands_work(self, played: Played) -> None:
        listed = run(played.command("jobs list"), played.folder)
        explained = run(played.command("jobs explain"), played.folder)
        retried = run(played.command("jobs retry"), played.folder)
        assert [listed.returncode, explained.returncode, retried.returncode] == [0, 0, 0], listed.stderr
        assert "GW_4XX" in listed.stdout
        job_id = played.command("jobs retry")[-1]
        assert job_id in explained.stdout
        with working(played.command("worker"), played.folder), App(played.url) as app:
            assert "/results/" in app.wait(job_id, timeout="15s")

    def test_ctrl_c_ends_the_demo_with_the_summary(self, tmp_path: Path) -> None:
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        with subprocess.Popen(
            demo(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            said, complaints = process.communicate(timeout=10)
        assert process.returncode == 0
        assert complaints == ""
        assert "jobs lost" in said


def processes_that_know(url: str) -> list[Path]:
    """Found by their environment. Without /proc, none is found."""
    return [path for path in Path("/proc").glob("[0-9]*/environ") if url.encode() in environment(path)]


def environment(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


class working:  # noqa: N801
    """A worker that runs during the test and is ended with SIGTERM."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command, self._folder = command, folder

    def __enter__(self) -> None:
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        assert self._process.wait(10) == 0


# The gateway, and how the rules of the tasks classify its faults


@pytest.fixture
def phase(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Phase]]:
    """The phase of a running gateway is the last item of this list."""
    phases = [Phase.HEALTHY]
    with Gateway(lambda: phases[-1]) as gateway:
        for name, value in gateway.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("mulligan.cli.demo.gateway.USUAL_SECONDS", 0)
        yield phases


def code_of_failures(calls: int, document: str = "invoice.pdf") -> set[str]:
    codes = set()
    for _ in range(calls):
        try:
            tasks.convert(document, mapping="invoice")
        except Exception as error:
            codes.add(tasks.app.judge.verdict(Failure.of(error), "convert").code)
    return codes


def test_a_healthy_gateway_converts(phase: list[Phase]) -> None:
    assert tasks.convert("invoice.pdf", mapping="invoice").endswith("/invoice.pdf.xml")


@pytest.mark.parametrize(
    ("fault", "code"),
    [(Phase.HICCUPS, "GW_5XX"), (Phase.SLOW, "GW_TIMEOUT"), (Phase.CROWDED, "RATE_LIMITED"), (Phase.DOWN, "GW_DOWN")],
)
def test_each_fault_gets_its_code(phase: list[Phase], fault: Phase, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "GATEWAY_TIMEOUT", 0.1)
    phase.append(fault)
    assert code_of_failures(6) == {code}


def test_a_damaged_document_is_final(phase: list[Phase]) -> None:
    assert code_of_failures(1, "damaged.pdf") == {"GW_4XX"}


def test_an_unreachable_gateway_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    with Gateway(lambda: Phase.HEALTHY) as gateway:
        environment = gateway.environment
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert code_of_failures(1) == {"GW_DOWN"}


def test_the_wait_is_as_long_as_the_gateway_requests(phase: list[Phase]) -> None:
    phase.append(Phase.CROWDED)
    with pytest.raises(OSError, match="429") as raised:
        for _ in range(10):
            tasks.convert("invoice.pdf", mapping="invoice")
    assert tasks.app.judge.verdict(Failure.of(raised.value), "convert").retry_after == timedelta(seconds=1)


def test_a_repeated_call_with_the_same_key_gets_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mulligan.cli.demo.gateway.USUAL_SECONDS", 0)
    with Gateway(lambda: Phase.HEALTHY) as gateway:
        answers = [gateway.answer({"document": "a.pdf"}, "same key") for _ in range(2)]
    assert answers[0] == answers[1]
    assert (gateway.converted, gateway.repeated) == (1, 1)


# The summary


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoProcesses]:
    """A demo in which one job was accepted and succeeded."""
    url = f"sqlite:///{tmp_path}/demo.db"
    monkeypatch.setattr("mulligan.cli.demo.gateway.USUAL_SECONDS", 0)
    monkeypatch.setattr(tasks.app, "settings", replace(tasks.app.settings, database_url=url))
    processes = DemoProcesses(tasks.app, url, log=tmp_path / "log", seconds=None)
    with tasks.app, processes.gateway as gateway:
        for name, value in gateway.environment.items():
            monkeypatch.setenv(name, value)
        processes.producer.accepted.append(submit(1).id)
        tasks.app.run_until_idle(timeout="10s")
        yield processes


def test_a_summary_without_losses_is_clean(processes: DemoProcesses) -> None:
    summary = sum_up(processes)
    assert (summary.accepted, summary.states, summary.lost) == (1, {State.SUCCEEDED: 1}, 0)
    assert summary.is_clean


def test_an_accepted_job_that_is_not_in_the_store_is_lost(processes: DemoProcesses) -> None:
    processes.producer.accepted.append("gone")
    assert sum_up(processes).lost == 1
    assert not sum_up(processes).is_clean


def test_a_job_that_succeeded_twice_is_noticed(processes: DemoProcesses, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "demo.db")) as database, database:
        database.execute(
            "INSERT INTO mulligan_events (type, job, kind, owner, attempt, at)"
            " SELECT type, job, kind, owner, attempt, at FROM mulligan_events WHERE type = 'job.succeeded'"
        )
    assert sum_up(processes).not_once == 1
    assert not sum_up(processes).is_clean


# The plan of faults


def test_a_round_has_every_phase_in_order_and_ends_healthy() -> None:
    plan = FaultPlan(30)
    seen = [phase for phase, _ in groupby(plan.at(tenth / 10) for tenth in range(300))]
    assert seen == [phase for phase, _ in ROUND]
    assert set(seen) == set(Phase) == set(WORDS)
    assert sum(share for _, share in ROUND) == 100


@pytest.mark.parametrize(("seconds", "length"), [(None, 30), (6, 6), (10, 10), (60, 30), (100, 100 / 3)])
def test_a_demo_consists_of_complete_rounds(seconds: float | None, length: float) -> None:
    assert FaultPlan.within(seconds).length == pytest.approx(length)


def test_each_round_kills_one_worker_while_answers_are_slow() -> None:
    plan = FaultPlan(10)
    kills = [second / 10 for second in range(1, 300) if plan.kills_due(second / 10) > plan.kills_due((second - 1) / 10)]
    assert [plan.at(kill) for kill in kills] == [Phase.SLOW] * 3


# Incidents


def event(type_: str, code: str | None = None, attempt: int = 1, **data: object) -> Event:
    return Event(1, type_, "01a1e153-90b5-726e-8ece-5bad89c429f7", "convert", "acme", attempt, NOW, None, code, data)


@pytest.mark.parametrize(
    ("happened", "troubles", "words"),
    [
        (
            event("job.retried", "GW_5XX", delay=1.1, reasons={"rule": "http.5xx", "failure": 1, "of": 4}),
            [],
            "convert …29f7 failed with GW_5XX: retried in 1.1s (failure 1 of 4, rule http.5xx)",
        ),
        (
            event("job.snoozed", "RATE_LIMITED", delay=1),
            [],
            "convert …29f7 met RATE_LIMITED: waits 1s as requested; no attempt is used up",
        ),
        (
            event("job.failed", "GW_4XX", reasons={"rule": "http.4xx", "code": "GW_4XX", "because": "so it is"}),
            [],
            "convert …29f7 failed with GW_4XX: no retry, so it is (rule http.4xx)",
        ),
        (
            event("job.failed", "DEADLINE"),
            [],
            "convert …29f7 failed with DEADLINE: no retry, the deadline passed while it waited",
        ),
        (
            event("job.released", "WORKER_LOST", reasons={"loss": 1, "of": 10}),
            [],
            "convert …29f7 lost its worker: taken back, queued again (loss 1 of 10)",
        ),
        (
            event("job.succeeded", attempt=3),
            ["GW_5XX", "GW_5XX"],
            "convert …29f7 succeeded: on attempt 3, after GW_5XX",
        ),
    ],
)
def test_notable_events_are_described_in_plain_words(happened: Event, troubles: list[str], words: str) -> None:
    assert str(describe_event(happened, troubles)) == words


@pytest.mark.parametrize("type_", ["job.enqueued", "job.queued", "job.started", "job.succeeded", "job.released"])
def test_ordinary_events_are_not_described(type_: str) -> None:
    assert describe_event(event(type_), []) is None


# The picture


def an_incident(weight: Weight, seconds: int) -> Incident:
    decided = "retried in 500ms (failure 1 of 3, rule timeout)"
    return Incident(NOW + timedelta(seconds=seconds), "convert …29f7", "failed with GW_TIMEOUT", decided, weight)


def test_the_most_notable_incidents_are_shown_in_order_of_time() -> None:
    first, second, third = an_incident(Weight.LOSS, 1), an_incident(Weight.RECOVERY, 2), an_incident(Weight.FAILURE, 3)
    assert most_notable([third, second, first], 2) == [first, third]


@pytest.mark.parametrize("phase", Phase)
def test_the_picture_fits_a_small_terminal_and_keeps_its_height(phase: Phase) -> None:
    heights = set()
    for rows in range(9):
        console = Console(width=80, record=True, file=StringIO())
        snapshot = a_snapshot(phase)
        console.print(picture(snapshot, [an_incident(Weight.RETRY, second) for second in range(100, 100 + rows)]))
        lines = console.export_text().splitlines()
        assert "…" not in "".join(lines).replace("convert …29f7", "")
        heights.add(len(lines))
    assert len(heights) == 1
    assert heights.pop() < 24


def a_snapshot(phase: Phase) -> Snapshot:
    return Snapshot(
        elapsed=1_234,
        seconds=3_600,
        began_at=NOW,
        phase=phase,
        calls=12_345,
        workers=2,
        killed=12,
        taken_back=34,
        states={"succeeded": 9_999, "running": 8, "queued": 10, "waiting": 100, "failed": 999},
        accepted=12_345,
        retries=12_345,
        waits=1_234,
        incidents=[],
    )


@pytest.mark.parametrize(
    "states", [{}, {"succeeded": 1}, {"succeeded": 100_000, "failed": 1}, {"waiting": 1, "running": 1, "queued": 1}]
)
def test_the_bar_is_full_and_shows_every_state_with_jobs(states: dict[str, int]) -> None:
    cells = lengths(states, 40)
    assert sum(cells.values()) == (40 if states else 0)
    assert set(cells) == {State(state) for state in states}


@pytest.mark.xdist_group("demo")
def test_a_program_gets_the_summary_as_json_and_names_the_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shown.db"
    played = run(demo("--seconds", "2", "--json", "--database", url), tmp_path, TMPDIR=str(tmp_path))
    summary = json.loads(played.stdout)
    assert (summary["is_clean"], summary["lost"], summary["database"]) == (True, 0, url)
    assert summary["accepted"] == sum(summary["states"].values())
    with closing(sqlite3.connect(tmp_path / "shown.db")) as database:
        assert database.execute("SELECT count(*) FROM mulligan_jobs").fetchone()[0] >= summary["accepted"]
