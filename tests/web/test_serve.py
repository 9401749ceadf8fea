"""`mulligan serve` and the protocol below it: real processes and real sockets."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from postgres_server import free_port

HERE = Path(__file__).parent
SHOP = """
import time
from pathlib import Path
from mulligan import App

app = App("sqlite:///jobs.db")
Path("token").write_text(app.create_key(owner=None, name="test").token)

@app.task(public=True)
def convert(path: str) -> str:
    return path.upper()

@app.task(public=True)
def slow() -> str:
    time.sleep(1)
    return "done"
"""
# A busy machine may take so many seconds to start a server.
PATIENCE = 60


class Served:
    def __init__(self, process: "subprocess.Popen[bytes]", line: str, token: str) -> None:
        self.process, self.line = process, line
        self.key = {"Authorization": f"Bearer {token}"}
        self.address = line.split()[1].removesuffix(".")
        self.port = int(self.address.rpartition(":")[2])

    def get(self, path: str) -> bytes:
        asked = Request(self.address + path, headers=self.key)
        return bytes(urlopen(asked, timeout=PATIENCE).read())

    def post(self, path: str, body: object) -> dict[str, str]:
        headers = {**self.key, "Content-Type": "application/json"}
        asked = Request(self.address + path, json.dumps(body).encode(), headers)
        found: dict[str, str] = json.loads(urlopen(asked, timeout=PATIENCE).read())
        return found

    def stop(self, number: int = signal.SIGINT) -> str:
        """Return what it logged."""
        self.process.send_signal(number)
        assert self.process.stderr is not None
        status, logged = self.process.wait(PATIENCE), self.process.stderr.read().decode()
        assert status == 0, logged
        return logged

    def send(self, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(data)
            return connection.recv(65_536)


@contextmanager
def serve(folder: Path, *options: str, shop: str = SHOP) -> Iterator[Served]:
    (folder / "shop.py").write_text(shop)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(folder), *sys.path])}
    command = [sys.executable, "-m", "mulligan", "serve", "shop:app", "--port", "0", *options]
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    try:
        assert process.stdout is not None and process.stderr is not None
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        line = process.stdout.readline().decode() if ready else ""
        if not line.startswith("Serving http://127.0.0.1:"):
            # What it logged is complete once it has ended.
            process.kill()
            raise AssertionError(line + process.stderr.read().decode())
        token = folder / "token"
        yield Served(process, line, token.read_text() if token.exists() else "")
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def test_it_says_where_it_listens_and_ends_at_once(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        assert json.loads(served.get("/healthz")) == {"status": "ok"}
        assert b"<h1>mulligan API" in served.get("/docs")
        # A connection that is kept open does not keep the server.
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
            assert "graceful" not in served.stop(), "nothing was waited for"


LARGE = """
app.enqueue_many([convert.options(delay="1h").bind("a" * 100_000) for _ in range(5)])
"""


def test_an_export_that_nobody_reads_does_not_keep_the_server(tmp_path: Path) -> None:
    with serve(tmp_path, shop=SHOP + LARGE) as served, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", served.port))
        authorization = served.key["Authorization"]
        head = f"GET /api/v1/jobs/export HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert served.stop() == ""


def test_streams_end_before_their_server_does(tmp_path: Path) -> None:
    """Each has its last chunk. A stream that the server cut, because it did not end by itself, would have none."""
    head = "GET /api/v1/events/stream HTTP/1.1\r\nHost: x\r\n"
    with serve(tmp_path) as served, ExitStack() as stack:
        asked = f"{head}Authorization: {served.key['Authorization']}\r\n\r\n".encode()
        streams = [stack.enter_context(socket.create_connection(("127.0.0.1", served.port))) for _ in range(5)]
        for stream in streams:
            stream.settimeout(PATIENCE)
            stream.sendall(asked)
            assert stream.recv(100).startswith(b"HTTP/1.1 200")
        assert served.stop() == ""
        for stream in streams:
            assert stream.makefile("rb").read().endswith(b"0\r\n\r\n")


def test_a_worker_in_the_same_process_finishes_its_jobs(tmp_path: Path) -> None:
    with serve(tmp_path, "--with-worker") as served:
        assert "with a worker" in served.line
        job = served.post("/api/v1/jobs", {"kind": "slow"})
        end = time.monotonic() + PATIENCE
        while json.loads(served.get(f"/api/v1/jobs/{job['id']}"))["state"] != "running":
            assert time.monotonic() < end
            time.sleep(0.02)
        served.stop(signal.SIGTERM)
    from mulligan import App

    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        assert app.job(job["id"]).result == "done"


def test_what_is_no_request_is_refused_and_the_server_goes_on(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        for data, status in (
            (b"hello\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nx: " + b"a" * 300_000, 431),
            (b"GET /" + b"a" * 300_000, 431),
            (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 50_000, 431),
        ):
            answer = served.send(data)
            assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:100]
            assert b"application/problem+json" in answer
        upgrade = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        assert served.send(upgrade).startswith(b"HTTP/1.1 200")
        assert json.loads(served.get("/healthz")) == {"status": "ok"}
        served.stop()
        assert served.process.stderr is not None
        assert served.process.stderr.read() == b"", "no client fills the log"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--host", "192.0.2.1"], "does not listen on '192.0.2.1'"),
        (["--host", "0.0.0.0"], "does not listen on '0.0.0.0'"),
        (["--port", "70000"], "70000"),
    ],
)
def test_an_address_that_cannot_be_used_is_named(tmp_path: Path, options: list[str], problem: str) -> None:
    without_key = SHOP.replace("Path(", "# Path(")
    (tmp_path / "shop.py").write_text(without_key)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "mulligan", "serve", "shop:app", *options]
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 2 and problem in run.stderr and "Traceback" not in run.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        (tmp_path / "shop.py").write_text(SHOP)
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(tmp_path), *sys.path])}
        command = [sys.executable, "-m", "mulligan", "serve", "shop:app", "--port", str(port)]
        run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 2 and f"port {port}: Address already in use" in run.stderr


# Imports

PROGRAM = """
import sys
{action}
servers = {{"starlette", "uvicorn", "httptools", "anyio"}}
found = {{name.partition(".")[0] for name in sys.modules}} & servers
assert not found and "mulligan.web" not in sys.modules, found
"""
ACTIONS = {
    "import": "import mulligan",
    "worker": (
        "from mulligan import App\napp = App('sqlite:///jobs.db')\n"
        "@app.task\ndef greet(): ...\ngreet.enqueue()\napp.run_until_idle()"
    ),
    "help": (
        "from click.testing import CliRunner\nfrom mulligan.cli.root import root\nCliRunner().invoke(root, ['--help'])"
    ),
    "jobs": (
        "from click.testing import CliRunner\nfrom mulligan.cli.root import root\n"
        "CliRunner().invoke(root, ['jobs', 'list', '--database', 'sqlite:///jobs.db'])"
    ),
    "serve --help": (
        "from click.testing import CliRunner\nfrom mulligan.cli.root import root\n"
        "CliRunner().invoke(root, ['serve', '--help'])"
    ),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_who_does_not_serve_imports_no_server(tmp_path: Path, name: str) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = PROGRAM.format(action=ACTIONS[name])
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("verb", ["asgi", "serve"])
def test_without_the_extra_it_is_named(tmp_path: Path, verb: str) -> None:
    code = (
        "import sys\nsys.modules['starlette'] = None\nsys.modules['uvicorn'] = None\nfrom mulligan import App\n"
        f"App('sqlite:///jobs.db').{verb}()"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "pip install 'mulligan[web]'" in run.stderr.splitlines()[-1]
