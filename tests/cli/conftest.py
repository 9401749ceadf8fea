"""A small app in a file, the real command as a subprocess, and the same command inside this process."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mulligan import App, FinalError, RetryPolicy, Steps, attempt
from mulligan.cli.root import root

PATIENCE = 20.0

SHOP = """
from mulligan import App, Exponential, FinalError, NotAllowed, RetryPolicy, Steps

app = App("sqlite:///jobs.db")


def only_with_source(job):
    raise NotAllowed("the source file is gone")


@app.task(retry=RetryPolicy(max_attempts=3, backoff=Exponential("5s", factor=3, jitter=0.2), limits={"IO_ERROR": 1}))
def convert(path: str) -> str:
    if path == "bad":
        raise FinalError("not a PDF", code="NOT_PDF")
    return path.upper()


@app.task(retry=RetryPolicy(max_attempts=4, backoff=Steps(["1m", "5m", "15m"])), can_retry=only_with_source)
def mark(path: str) -> None:
    raise FinalError("no such video")
"""


class Program:
    """A command that keeps running."""

    def __init__(self, *args: str, stdout: int = subprocess.PIPE) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mulligan", *args], stdout=stdout, stderr=subprocess.PIPE, bufsize=0
        )

    def line(self) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "nothing was printed in time"
        return self.process.stdout.readline().decode()

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Wait for its end; returns the exit code and stderr."""
        code = self.process.wait(PATIENCE)
        assert self.process.stderr is not None
        return code, self.process.stderr.read().decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The width of the terminal that runs the tests must not matter."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def start(no_terminal: None) -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def begin(*args: str, **options: Any) -> Program:
        programs.append(Program(*args, **options))
        return programs[-1]

    yield begin
    for program in programs:
        program.close()


@pytest.fixture
def command(no_terminal: None) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real command to its end."""

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mulligan", *args], capture_output=True, text=True, timeout=PATIENCE
        )

    return run


@pytest.fixture
def invoke(no_terminal: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Result]]:
    """Run the command inside this process. Modules of the test's folder are unloaded afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*args: str) -> Result:
        return CliRunner().invoke(root, args, prog_name="mulligan")

    yield call
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__file__", None) or getattr(module, "__path__", "")):
            del sys.modules[name]


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """An app in the current folder, as `--app` names it."""
    (tmp_path / "shop.py").write_text(SHOP)
    return "shop:app"


@pytest.fixture
def works(app: App) -> App:
    """An app in this process on the database of `shop`. Its task does what its argument says."""

    @app.task(retry=RetryPolicy(max_attempts=3, backoff=Steps(["1h"])))
    def convert(path: str) -> str:
        if path == "bad":
            raise FinalError("not a PDF", code="NOT_PDF")
        if path == "flaky":
            raise OSError("the disk hiccuped")
        attempt().progress(0.5, "half way")
        return path.upper()

    return app


@pytest.fixture
def enqueue(works: App) -> Callable[..., str]:
    """Enqueue a job, optionally run it, and return its id."""

    def put(path: str = "fine", *, run: bool = False, **options: Any) -> str:
        job = works.tasks["convert"].options(**options).enqueue(path)
        if run:
            works.run_until_idle(timeout=PATIENCE)
        return job.id

    return put


def until(holds: Callable[[], Any], what: str) -> Any:
    """Wait for a condition, up to a limit."""
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.02)
    return found


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., Any]:
    return until


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """The writing end of a pipe whose reading end is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def read_json(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(name="read_json")
def read_json_fixture() -> Callable[[Result], Any]:
    return read_json
