"""Traces: what processes send to a real collector, and that nothing happens without OpenTelemetry."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mulligan import App, JobFilter, traces
from otlp_receiver import Collector, Received, collecting

TRACED = """
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider(resource=Resource.create({"service.name": os.environ["PROCESS"]}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(os.environ["COLLECTOR"])))
trace.set_tracer_provider(provider)
"""

TASKS = """
from mulligan import App, FinalError, Fixed, RetryPolicy, attempt

app = App("sqlite:///jobs.db")


@app.task(retry=RetryPolicy(max_attempts=3, backoff=Fixed("0s")), queue="files")
def convert(name: str) -> str:
    with trace.get_tracer("app").start_as_current_span("read the file"):
        if attempt().number == 1:
            raise ConnectionError("https://user:hunter2hunter2@files.example refused")
    return name


@app.task(queue="files")
async def convert_async(name: str) -> None:
    with trace.get_tracer("app").start_as_current_span("read the file"):
        pass


@app.task(isolate=True, queue="files")
def convert_isolated(name: str) -> None:
    with trace.get_tracer("app").start_as_current_span("read the file"):
        pass


@app.task(isolate=True, queue="files")
async def convert_isolated_async(name: str) -> None:
    with trace.get_tracer("app").start_as_current_span("read the file"):
        pass
"""

ENQUEUE = """
import asyncio, sys
import tasks
from opentelemetry import trace

task = getattr(tasks, sys.argv[1])
with trace.get_tracer("app").start_as_current_span("the request"):
    if sys.argv[2] == "async":
        print(asyncio.run(task.enqueue_async("a.pdf")).id)
    else:
        print(task.enqueue("a.pdf").id)
"""

WORK = """
import tasks
from mulligan import logs

logs.configure("DEBUG", "json")
tasks.app.run_until_idle(retries=True)
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TRACED + TASKS)
    return tmp_path


class Played(NamedTuple):
    folder: Path
    collector: Collector
    job: str
    lines: list[dict[str, Any]]


def python(folder: Path, code: str, *words: str, process: str, collector: Collector | None = None) -> tuple[str, str]:
    """What a process of its own prints and logs."""
    endpoint = {} if collector is None else {"COLLECTOR": collector.endpoint}
    path = os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, **endpoint, "PROCESS": process, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def play(folder: Path, collector: Collector, task: str, way: str = "sync") -> tuple[str, list[dict[str, Any]]]:
    """The id of a job that one process enqueued and another ran, and what the other logged."""
    job, _ = python(folder, ENQUEUE, task, way, process="web", collector=collector)
    _, logged = python(folder, WORK, process="worker", collector=collector)
    return job, [json.loads(line) for line in logged.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """A job that failed once, enqueued and run by two processes."""
    folder = tmp_path_factory.mktemp("traced")
    (folder / "tasks.py").write_text(TRACED + TASKS)
    with collecting() as collector:
        job, lines = play(folder, collector, "convert")
        yield Played(folder, collector, job, lines)


def by_name(collector: Collector, name: str) -> list[Received]:
    return sorted(
        (each for each in collector.spans if each.name == name), key=lambda each: each.span.start_time_unix_nano
    )


def test_one_trace_leads_from_the_request_through_two_processes_to_every_settle(played: Played) -> None:
    collector = played.collector
    [request], [enqueue] = by_name(collector, "the request"), by_name(collector, "enqueue files")
    waits, attempts = by_name(collector, "wait files"), by_name(collector, "process files")
    reads, settles = by_name(collector, "read the file"), by_name(collector, "settle files")
    assert {each.trace for each in collector.spans} == {request.trace}
    assert len(collector.spans) == 10
    # Who is below whom, and in which process.
    assert (enqueue.parent, enqueue.process, enqueue.kind) == (request.id, "web", "PRODUCER")
    assert [(each.parent, each.kind) for each in waits] == [(enqueue.id, "INTERNAL")] * 2
    assert [(each.parent, each.kind) for each in attempts] == [(enqueue.id, "CONSUMER")] * 2
    assert [each.parent for each in reads] == [each.id for each in attempts]
    assert [(each.parent, each.kind) for each in settles] == [(each.id, "CLIENT") for each in attempts]
    assert {each.process for each in [*waits, *attempts, *reads, *settles]} == {"worker"}
    # What they say.
    assert enqueue.attributes == {
        "messaging.system": "mulligan",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "files",
        "messaging.message.id": played.job,
        "mulligan.task": "convert",
    }
    assert [each.attributes["mulligan.attempt"] for each in attempts] == [1, 2]
    assert [each.is_failed for each in attempts] == [True, False]
    assert attempts[0].attributes["error.type"] == "ConnectionError"
    assert [each.attributes["mulligan.outcome"] for each in settles] == ["retried", "succeeded"]
    assert settles[0].attributes["mulligan.error.code"] == "NETWORK"
    assert settles[0].attributes["mulligan.delay"] == 0
    assert {each.attributes["mulligan.answer"] for each in settles} == {"accepted"}
    # A wait ends with the claim, and the second begins with the settle of the first attempt.
    assert waits[0].span.start_time_unix_nano <= waits[0].span.end_time_unix_nano
    assert waits[0].span.end_time_unix_nano <= waits[1].span.start_time_unix_nano


def test_secrets_of_a_failure_are_masked_in_its_span(played: Played) -> None:
    failed = by_name(played.collector, "process files")[0].span
    assert "https://user:•••@files.example refused" in failed.status.message
    assert "hunter2" not in str([failed, *failed.events])


def test_log_lines_and_explain_name_the_trace(played: Played) -> None:
    folder, collector, job, lines = played
    [trace] = {each.trace for each in collector.spans}
    about = [line for line in lines if line.get("job_id") == job]
    assert {line.get("trace_id") for line in about} == {trace}
    assert {line.get("event") for line in about} >= {"job.started", "job.retried", "job.succeeded"}
    with App(f"sqlite:///{folder}/jobs.db") as app:
        assert app.explain(job).trace_id == trace
        assert [found.id for found in app.jobs(JobFilter(tag=f"trace:{trace}")).jobs] == [job]
    words = [sys.executable, "-m", "mulligan", "--database", f"sqlite:///{folder}/jobs.db", "jobs", "explain", job]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    assert f"Its trace is {trace}." in said


@pytest.mark.parametrize(
    ("task", "way"),
    [
        ("convert_async", "async"),
        ("convert_isolated", "sync"),
        ("convert_isolated_async", "async"),
    ],
)
def test_spans_of_the_task_are_below_the_attempt_wherever_it_runs(
    folder: Path, collector: Collector, task: str, way: str
) -> None:
    play(folder, collector, task, way)
    [attempt], [read] = by_name(collector, "process files"), by_name(collector, "read the file")
    assert {each.trace for each in collector.spans} == {attempt.trace}
    assert read.parent == attempt.id
    assert len(by_name(collector, "settle files")) == 1


def test_a_job_of_a_program_that_does_not_trace_begins_a_trace(folder: Path, collector: Collector) -> None:
    (folder / "tasks_plain.py").write_text(TASKS)
    python(folder, "import tasks_plain as tasks; tasks.convert_async.enqueue('a.pdf')", process="web")
    python(folder, WORK, process="worker", collector=collector)
    [attempt] = by_name(collector, "process files")
    assert attempt.parent == ""
    assert by_name(collector, "wait files") == []


def test_without_opentelemetry_nothing_is_imported_and_jobs_carry_nothing(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None  # as if it were not installed
from mulligan import App

app = App("sqlite:///jobs.db")

@app.task
def work() -> None:
    pass

job = work.enqueue()
app.run_until_idle()
job = app.job(job.id)
print([name for name in sys.modules if name.startswith("opentelemetry.")], job.tags, job.state)
"""
    said, _ = python(tmp_path, code, process="web")
    assert said == "[] () succeeded"


def test_a_program_that_only_imports_the_api_is_not_traced(app: App) -> None:
    import opentelemetry.trace  # noqa: F401

    assert traces.tracer() is None

    @app.task
    def work() -> None:
        pass

    assert work.enqueue().tags == ()


def test_a_context_that_was_not_sampled_stays_so() -> None:
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, get_current_span

    span = NonRecordingSpan(SpanContext(1 << 100, 1 << 50, is_remote=False, trace_flags=TraceFlags(0)))
    tags = traces.tags_of(span)
    assert tags == (f"trace:{1 << 100:032x}", f"span:{1 << 50:016x}-00")
    parent = get_current_span(traces.parent_in(["eu", *tags])).get_span_context()
    assert (parent.trace_id, parent.span_id, parent.trace_flags) == (1 << 100, 1 << 50, 0)
    assert traces.parent_in(["trace:forged", "span:forged"]) is None
    assert traces.trace_id_in(["eu", "trace:XYZ"]) is None
