"""What is left of a server and its worker after jobs that fail with secrets and with control characters.

A real `mulligan serve --with-worker` runs every job of `planted.py`, and jobs whose texts would forge lines and control
terminals. It is killed, and its files, its output, all answers, the stream and the commands are searched.
"""

import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from mulligan import App
from mulligan.cli.root import root
from planted import MARK, MESSAGES, S

HERE = Path(__file__).parent
PATIENCE = 60
NASTY = "\x1b[2J\x1b]0;owned\x07\r\nforged: line\n\x9b31m\u202e\u2028 \x7f end"
APP = """
import logging
import planted
from mulligan import FinalError, RetryPolicy, attempt
from planted import app

@app.task(public=True)
def sow() -> int:
    for number in range(len(planted.MESSAGES)):
        planted.say.enqueue(number)
    others = set(app.tasks) - {"say", "sow", "nasty"}
    return len(planted.MESSAGES) + len([app.tasks[name].enqueue() for name in others])

@app.task(public=True, retry=RetryPolicy(max_attempts=1))
def nasty(text: str) -> None:
    logging.getLogger("nasty").warning("got %s", text)
    attempt().progress(0.5, text)
    raise FinalError(text, code="NOT_PDF")
"""
# What must still be told, or masking would be of no use.
TOLD = (
    "Authorization: •••",
    "postgresql://app:•••@db:5432/shop is down",
    "tool --password ••• --verbose failed",
    "login failed: password=•••",
    "tried with token=•••",
)


class Running:
    def __init__(self, folder: Path, address: str, key: str) -> None:
        self.folder, self.address, self.key = folder, address, key
        self.answers: list[str] = []
        self.stream: list[bytes] = []

    def ask(self, path: str, body: Any = None, **headers: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **headers}
        try:
            with urlopen(Request(f"{self.address}/api/v1{path}", data, headers), timeout=PATIENCE) as answer:
                text = answer.read().decode()
        except HTTPError as error:
            text = error.read().decode()
        self.answers.append(text)
        return text

    def command(self, *arguments: str) -> str:
        done = CliRunner().invoke(root, ["--server", self.address, "--key", self.key, *arguments])
        return done.output

    def follow(self) -> None:
        """Keep what the stream sends until the server ends."""
        asked = Request(f"{self.address}/api/v1/events/stream?after=0", headers={"Authorization": f"Bearer {self.key}"})
        with urlopen(asked, timeout=PATIENCE) as answer:
            try:
                while part := answer.read1(65_536):
                    self.stream.append(part)
            except (OSError, HTTPException):
                pass

    def wait(self) -> list[str]:
        """Until all jobs are over. Returns their ids."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            jobs = json.loads(self.ask("/jobs?limit=1000"))["jobs"]
            if len(jobs) > len(MESSAGES) and all(job["finished_at"] for job in jobs):
                return [job["id"] for job in jobs]
            time.sleep(0.05)
        pytest.fail("the jobs did not end")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """All that is left, by where it was found."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "planted.py").write_text((HERE.parent / "planted.py").read_text("utf-8"))
    (folder / "sown.py").write_text(APP)
    with App(f"sqlite:///{folder}/planted.db") as app:
        key = app.create_key(owner=None, name="root").token
    env = {**os.environ, "PYTHONPATH": str(folder), "MULLIGAN_LOG_LEVEL": "DEBUG", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "mulligan", "serve", "sown:app", "--port", "0", "--with-worker"]
    with open(folder / "log", "wb") as log:  # noqa: PTH123
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=log)
    try:
        assert server.stdout is not None
        ready, _, _ = select.select([server.stdout], [], [], PATIENCE)
        line = server.stdout.readline().decode() if ready else ""
        assert line.startswith("Serving http://127.0.0.1:"), (folder / "log").read_text()
        found = visit(Running(folder, line.split()[1].removesuffix("."), key))
    finally:
        # As a killed process leaves it: the write-ahead log is not folded into the file.
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
    files = {path.name: path.read_bytes().decode("latin-1") for path in folder.glob("planted.db*")}
    yield files | found | {"log": (folder / "log").read_text("utf-8")}


def visit(server: Running) -> dict[str, str]:
    following = threading.Thread(target=server.follow, daemon=True)
    following.start()
    server.ask("/jobs", {"kind": "sow"})
    server.ask("/jobs", {"kind": "nasty", "arguments": {"text": NASTY}})
    ids = server.wait()
    nasty = json.loads(server.ask("/jobs?kind=nasty"))["jobs"][0]["id"]
    server.ask(f"/jobs/{nasty}/retry", {"reason": f"the password={S[59]} was wrong {NASTY}"})
    server.wait()
    server.ask(f"/jobs/mk_ab12cd34_{S[28]}{S[28]}_9f/retry", {"reason": f"token={S[59]}"})
    # It tells the caller what was not found.
    del server.answers[-1]
    server.ask("/pauses", {"duty": "retry", "duration": "1h", "reason": f"secret={S[59]}"})
    for job in ids[::4]:
        for path in ("", "/explain", "/events"):
            server.ask(f"/jobs/{job}{path}")
    more = ("/jobs/export?events=true", "/jobs/export?format=csv", "/events?limit=1000", "/audit", "/pauses", "/doctor")
    for path in (*more, "/jobs/counts", "/jobs/progress", f"/jobs/last-failures?ids={nasty}", "/admin/workers/status"):
        server.ask(path)
    shown = [
        server.command(*words)
        for words in (
            ("jobs", "list"),
            ("jobs", "show", nasty),
            ("jobs", "explain", nasty),
            ("events", "--after", "0", "--limit", "1000"),
            ("jobs", "show", NASTY),
            ("jobs", "retry", nasty, "--reason", NASTY),
            ("pauses",),
        )
    ]
    return {
        "answers": "\n".join(server.answers),
        "stream": b"".join(server.stream).decode(),
        "commands": "\n".join(shown),
    }


def test_no_planted_secret_is_found_anywhere(traces: dict[str, str]) -> None:
    assert {"planted.db", "planted.db-wal", "log", "answers", "stream", "commands"} <= set(traces)
    assert min(len(traces[place]) for place in ("planted.db-wal", "answers", "stream", "log")) > 10_000
    found = [
        (place, text[max(0, at.start() - 80) : at.end() + 20])
        for place, text in traces.items()
        for at in re.finditer(MARK, text)
    ]
    assert found == []


@pytest.mark.parametrize("place", ["answers", "stream"])
def test_what_helps_is_still_told(traces: dict[str, str], place: str) -> None:
    shown = traces[place].replace('\\"', '"')
    assert [text for text in TOLD if text not in shown] == []


@pytest.mark.parametrize("place", ["log", "commands"])
def test_no_text_of_a_job_forges_a_line_or_controls_a_terminal(traces: dict[str, str], place: str) -> None:
    text = traces[place]
    assert "owned" in text, "it must have been printed"
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", text) == []
    assert [line for line in text.split("\n") if line.lstrip().startswith("forged")] == []
