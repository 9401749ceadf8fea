"""A newcomer's session: the commands and programs of the guides about the API, typed as they stand there."""

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from postgres_server import free_port

from live import eventually
from mulligan.client import Client

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PATIENCE = 60
EXAMPLES = ("http://127.0.0.1:8000", "https://jobs.example.org")


def blocks(guide: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (GUIDES / f"{guide}.md").read_text("utf-8"), re.S | re.M)


class Session:
    """A terminal in the folder of the app, with a server on another port than in the guides."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"http://127.0.0.1:{free_port()}"
        scripts = str(Path(sys.executable).parent)
        self.env = {
            **os.environ,
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
            "PYTHONUNBUFFERED": "1",
        }

    def typed(self, text: str) -> str:
        for example in EXAMPLES:
            text = text.replace(example, self.url)
        return text

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", self.typed(command)],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    @contextmanager
    def started(self, *command: str) -> Iterator["Program"]:
        process = subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE, bufsize=0)
        try:
            yield Program(process)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


class Program:
    """A program that goes on until it is stopped."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process, self.said = process, ""

    def read_until(self, words: str) -> None:
        assert self.process.stdout is not None
        end = time.monotonic() + PATIENCE
        while words not in self.said:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            part = os.read(self.process.stdout.fileno(), 65_536) if ready else b""
            assert part, (words, self.said)
            self.said += part.decode()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """After the first steps of the guide: the app is served, and there is a key."""
    session = Session(tmp_path_factory.mktemp("session"))
    (session.folder / "shop.py").write_text(blocks("http-api", "python")[0])
    serve = next(text for text in blocks("http-api", "sh") if "mulligan serve" in text)
    port = session.url.rpartition(":")[2]
    with session.started(*serve.split(), "--port", port) as server:
        server.read_until("This link makes one")
        token = re.search(r"token=(\S+)", server.said)
        assert token
        page = session.run(f"curl -s {session.url}/setup --data-urlencode 'token={token[1]}' -d name=mine")
        key = re.search(r"mk_\w+", page)
        assert key
        session.env["KEY"] = key[0]
        yield session


@pytest.fixture(scope="module")
def cancelled(session: Session) -> str:
    """A job that can be retried."""
    with Client(session.url, key=session.env["KEY"]) as client:
        job = client.enqueue("convert", {"path": "b.pdf"}, delay="1h")
        return client.cancel(job.id).id


def test_the_commands_of_the_guide_on_http(session: Session, cancelled: str) -> None:
    (commands,) = [text for text in blocks("http-api", "sh") if "curl" in text]
    enqueue, look, retry = re.split(r"\n(?=curl)", commands.replace("curl ", "curl -s ").strip())
    job = json.loads(session.run(enqueue))
    assert (job["kind"], job["arguments"]) == ("convert", {"path": "in.pdf", "pages": 3})
    assert json.loads(session.run(enqueue))["id"] == job["id"], "the same Idempotency-Key"
    assert json.loads(session.run(look))["jobs"] == []
    session.env["ID"] = cancelled
    assert json.loads(session.run(retry))["id"] == cancelled


def test_the_stream_of_the_guide(session: Session, cancelled: str) -> None:
    (command,) = blocks("event-stream", "sh")
    with session.started("sh", "-ec", "exec " + session.typed(command).strip()) as stream:
        stream.read_until(cancelled)
        assert "event: job.cancelled\ndata: {" in stream.said


def test_the_program_of_the_guide_on_the_client(session: Session) -> None:
    session.env["MULLIGAN_KEY"] = session.env["KEY"]
    (program,) = blocks("client", "py")
    with session.started(sys.executable, "-c", session.typed(program)) as client:
        client.read_until("a.pdf: 1 pages")


def test_the_commands_of_the_guide_on_the_client(session: Session) -> None:
    (commands,) = blocks("client", "sh")
    settings, *typed = session.typed(commands).replace("MULLIGAN_KEY=…", 'MULLIGAN_KEY="$KEY"').splitlines()
    assert [line.split()[1] for line in typed] == ["jobs", "events"]
    assert "No job matches" in session.run(f"{settings}\n{typed[0]}")
    with (
        session.started("sh", "-ec", f"{settings}\nexec {typed[1]}") as events,
        Client(session.url, key=session.env["KEY"]) as client,
    ):
        # The command may begin to follow after the first of them.
        eventually(lambda: _is_told(events, client.enqueue("convert", {"path": "c.pdf"}).id), PATIENCE)


def _is_told(events: Program, job: str) -> bool:
    assert events.process.stdout is not None
    if select.select([events.process.stdout], [], [], 1)[0]:
        events.said += os.read(events.process.stdout.fileno(), 65_536).decode()
    return job[-12:] in events.said
