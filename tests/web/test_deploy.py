"""The configurations of the guide on deployment, taken out of it and used: nginx, systemd, Docker and compose."""

import json
import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import yaml
from nginx import find_nginx, is_open, nginx
from postgres_server import PostgresServer, free_port

from live import eventually
from mulligan.client import Client

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PATIENCE = 30
SHOP = re.search(r"<!-- docs: file shop.py -->\n```python\n(.*?)```", (GUIDES / "http-api.md").read_text("utf-8"), re.S)
BLOCKS = re.findall(r"^```(?:sh)?\n(.*?)^```$", (GUIDES / "deploy.md").read_text("utf-8"), re.S | re.M)
# Not this machine's usual address, so that it is told apart from that of the proxy.
ELSEWHERE = "127.0.0.2"
SPOOFED = {"X-Forwarded-For": "203.0.113.9"}


def block(beginning: str) -> str:
    (found,) = [text for text in BLOCKS if text.lstrip().startswith(beginning)]
    return str(found)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the app of the guide."""
    assert SHOP is not None
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SHOP[1])
    return folder


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MULLIGAN_APP": "shop:jobs", **more}


def mulligan(folder: Path, *words: str, **more: str) -> str:
    command = [sys.executable, "-m", "mulligan", *words]
    done = subprocess.run(
        command, cwd=folder, env=environment(**more), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def started(folder: Path, command: list[str], **more: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(command, cwd=folder, env=environment(**more), stdout=subprocess.DEVNULL)
    try:
        yield process
        assert process.poll() is None, "it ended by itself"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def wait_for(port: int) -> None:
    """A server that answers handles signals too."""

    def answers() -> bool:
        return is_open(port) and httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE).is_success

    eventually(answers)


class Site:
    """nginx with TLS before two servers of one database: one at `/`, one at `/ops/`."""

    def __init__(self, port: int, direct: int, trust: ssl.SSLContext, token: str) -> None:
        self.url, self.direct = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{direct}"
        self.trust, self.token = trust, token

    def client(self, url: str | None = None, *, address: str = ELSEWHERE) -> httpx.Client:
        transport = httpx.HTTPTransport(verify=self.trust, local_address=address)
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(transport=transport, base_url=url or self.url, headers=headers, timeout=PATIENCE)

    def newest_change(self) -> dict[str, Any]:
        with self.client() as client:
            found: dict[str, Any] = client.get("/api/v1/audit", params={"limit": 1}).json()["audit"][0]
            return found


@pytest.fixture(scope="module")
def site(shop: Path) -> Iterator[Site]:
    program = find_nginx()
    if program is None:
        pytest.skip("nginx is not installed: 'apt-get install nginx-light'")
    authority = trustme.CA()
    certificate = authority.issue_cert("jobs.example.org", "127.0.0.1")
    certificate.private_key_pem.write_to_path(shop / "privkey.pem")
    certificate.cert_chain_pems[0].write_to_path(shop / "fullchain.pem")
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    token = json.loads(mulligan(shop, "keys", "create", "--admin", "--name", "test", "--json"))["token"]
    port, plain, below = free_port(), free_port(), free_port()
    serve = [sys.executable, "-m", "mulligan", "serve", "shop:jobs", "--port"]
    with ExitStack() as stack:
        stack.enter_context(started(shop, [*serve, str(plain)]))
        stack.enter_context(started(shop, [*serve, str(below), "--root-path", "/ops"]))
        stack.enter_context(nginx(program, shop, configuration(shop, port, plain, below), port))
        wait_for(plain)
        wait_for(below)
        yield Site(port, plain, trust, token)


def configuration(folder: Path, port: int, plain: int, below: int) -> str:
    """That of the guide, with the ports and files of this test."""
    ops = block("location /ops/").replace("127.0.0.1:8000", f"127.0.0.1:{below}")
    server = block("server {").replace("127.0.0.1:8000", f"127.0.0.1:{plain}")
    server = server.replace("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;\n{ops}")
    return server.replace("/etc/letsencrypt/live/jobs.example.org", str(folder))


BODY = {"kind": "convert", "arguments": {"path": "in.pdf"}}


def test_the_api_and_its_client_work_through_nginx(site: Site) -> None:
    with site.client() as client:
        job = client.post("/api/v1/jobs", json=BODY)
        assert job.status_code == 201
        assert client.get(f"/api/v1/jobs/{job.json()['id']}").json()["kind"] == "convert"
        assert client.get("/api/v1/jobs", headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/docs").status_code == 200
        long = client.get("/api/v1/jobs", params={"kind": "a" * 12_000})
        assert (long.status_code, long.json()["code"]) == (400, "VALIDATION_ERROR")
    with Client(site.url, key=site.token, context=site.trust) as remote:
        assert remote.job(job.json()["id"]).kind == "convert"


def test_an_event_comes_while_the_stream_is_open(site: Site) -> None:
    with site.client() as client, site.client() as other, client.stream("GET", "/api/v1/events/stream") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        job = other.post("/api/v1/jobs", json=BODY).json()["id"]
        end, lines = time.monotonic() + PATIENCE, stream.iter_lines()
        while job not in (line := next(lines)):
            assert time.monotonic() < end, "no event came"
        assert '"job.enqueued"' in line


def test_the_audit_has_the_address_of_the_client_and_not_one_that_it_chose(site: Site) -> None:
    with site.client() as client:
        client.post("/api/v1/jobs", json=BODY, headers=SPOOFED)
    assert site.newest_change()["ip"] == ELSEWHERE, "nginx says who it was"
    with site.client(site.direct) as client:
        client.post("/api/v1/jobs", json=BODY, headers=SPOOFED)
    assert site.newest_change()["ip"] == ELSEWHERE, "only proxies are believed"
    with site.client(site.direct, address="127.0.0.1") as client:
        client.post("/api/v1/jobs", json=BODY, headers=SPOOFED)
    assert site.newest_change()["ip"] == SPOOFED["X-Forwarded-For"], "a proxy on this machine is believed"


def test_a_body_that_is_too_large_is_refused_with_the_reason(site: Site) -> None:
    with site.client() as client:
        answer = client.post("/api/v1/jobs", json=BODY | {"dedupe": "x" * 2**20})
        assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE")
        assert client.post("/api/v1/jobs", content=b"x" * (2 * 2**20 + 1)).status_code == 413


def test_it_works_below_a_path(site: Site) -> None:
    with site.client() as client:
        job = client.post("/ops/api/v1/jobs", json=BODY)
        assert job.status_code == 201
        assert client.get("/ops/openapi.json").json()["servers"] == [{"url": "/ops"}]
        assert client.get("/ops/docs.css").status_code == 200
    with Client(f"{site.url}/ops", key=site.token, context=site.trust) as remote:
        assert remote.job(job.json()["id"]).kind == "convert"


def test_the_unit_of_systemd_is_valid_and_its_command_serves(shop: Path, tmp_path: Path) -> None:
    unit = block("[Unit]")
    # The virtual environment of the guide: this one.
    (shop / ".venv").symlink_to(Path(sys.executable).parents[1])
    command = re.search("^ExecStart=(.*)$", unit, re.M)
    assert command is not None and shlex.split(command[1])[0] == "/srv/shop/.venv/bin/mulligan"
    port = free_port()
    words = shlex.split(command[1].replace("/srv/shop", str(shop)).replace("8000", str(port)))
    with started(shop, words):
        wait_for(port)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed, so the unit was not verified: 'apt-get install systemd'")
    file = tmp_path / "jobs-web.service"
    file.write_text(unit.replace("/srv/shop", str(shop)))
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=PATIENCE)
    complaints = [line for line in done.stderr.splitlines() if "jobs-web" in line]
    assert (done.returncode, complaints) == (0, [])


def test_the_containers_of_compose_run(shop: Path, server: PostgresServer) -> None:
    """Without Docker: the commands of the containers, in the order and with the environment that the file gives."""
    services = yaml.safe_load(block("services:"))["services"]
    url = server.fresh_database("compose")
    image = dict(re.findall(r"^(ENV|CMD) (.*)$", block("FROM"), re.M))
    assert image["ENV"] == "MULLIGAN_APP=shop:jobs"
    assert {"MULLIGAN_DATABASE_URL"} == services["migrate"]["environment"].keys()
    assert services["web"]["environment"] == services["worker"]["environment"] == services["migrate"]["environment"]
    settings = {"MULLIGAN_DATABASE_URL": url}
    mulligan(shop, *services["migrate"]["command"].split()[1:], **settings)
    port = free_port()
    serve = json.loads(image["CMD"].replace("0.0.0.0", "127.0.0.1").replace("8000", str(port)))
    worker = services["worker"]["command"].split()
    run = [sys.executable, "-m"]
    token = json.loads(mulligan(shop, "keys", "create", "--admin", "--name", "first", "--json", **settings))["token"]
    with started(shop, [*run, *serve], **settings), started(shop, [*run, *worker], **settings):
        wait_for(port)
        with Client(f"http://127.0.0.1:{port}", key=token) as client:
            assert client.wait(client.enqueue("convert", {"path": "in.pdf"}), timeout="30s") == "in.pdf: 1 pages"
