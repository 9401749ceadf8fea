"""The whole system beside a test: a gateway process, the site, a worker, and people who use it."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from apps.pdfxml.app import Converter
from pdfxml_files import INVOICE
from postgres_server import free_port

from live import eventually, working
from mulligan import App, JobFailed

# A process needs two seconds of CPU to start: on a machine with thirty others, a minute.
STARTS = 120.0
MODULES = os.pathsep.join(place for place in sys.path if place)


class Gateway:
    """The gateway as a process of its own, which can be killed, started again, and made to fail."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "apps.pdfxml.gateway", "--port", str(self.port), "--faults"]
        self._process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": MODULES})
        eventually(self.is_up, STARTS)

    def kill(self) -> None:
        """As the kernel does it: nothing is finished, nothing is said."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def is_up(self) -> bool:
        try:
            return httpx.get(f"{self.url}/mappings", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def fail(self, kind: str = "status", **terms: Any) -> None:
        httpx.put(f"{self.url}/faults", json={"kind": kind, **terms}).raise_for_status()

    def heal(self) -> None:
        httpx.delete(f"{self.url}/faults").raise_for_status()

    @property
    def met(self) -> int:
        """How many calls met the fault."""
        return int(httpx.get(f"{self.url}/faults").json()["met"])


class Person:
    """A person with a browser and a session."""

    def __init__(self, base: str, app: App) -> None:
        self.client, self._app = httpx.Client(base_url=base, timeout=30), app

    def upload(self, content: bytes = INVOICE, name: str = "invoice.pdf", mapping: str = "text") -> httpx.Response:
        file = {"file": (name, content, "application/pdf")}
        return self.client.post("/api/upload", data={"mapping": mapping}, files=file)

    def uploaded(self, content: bytes = INVOICE, **more: Any) -> str:
        """The id of an upload that was accepted."""
        answer = self.upload(content, **more)
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["id"])

    def job(self, job: str) -> dict[str, Any]:
        answer = self.client.get(f"/api/jobs/{job}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def jobs(self) -> list[dict[str, Any]]:
        return list(self.client.get("/api/jobs").json()["jobs"])

    def events(self, job: str) -> list[dict[str, Any]]:
        return list(self.client.get(f"/api/jobs/{job}/events").json()["events"])

    def download(self, job: str) -> httpx.Response:
        return self.client.get(f"/api/jobs/{job}/download")

    def retry(self, job: str) -> httpx.Response:
        return self.client.post(f"/api/jobs/{job}/retry")

    def wait(self, job: str, status: str) -> dict[str, Any]:
        """Until the conversion is over."""
        with contextlib.suppress(JobFailed):
            self._app.wait(job, timeout="60s")
        found = self.job(job)
        assert found["status"] == status, found
        return found


class World:
    def __init__(self, converter: Converter, base: str, gateway: Gateway) -> None:
        self.converter, self.app, self.base, self.gateway = converter, converter.app, base, gateway
        self._people: list[Person] = []

    def person(self) -> Person:
        self._people.append(Person(self.base, self.app))
        return self._people[-1]

    def working(self, **options: Any) -> contextlib.AbstractContextManager[None]:
        return working(self.app, **options)

    def document(self, job: str) -> str:
        with self.converter.database.read() as connection:
            found = self.converter.documents.find(connection, job)
        assert found is not None
        return found.id

    def result(self, job: str) -> Path:
        return self.converter.settings.results / f"{self.document(job)}.xml"

    def source(self, job: str) -> Path:
        return self.converter.settings.uploads / f"{self.document(job)}.pdf"

    def close(self) -> None:
        for person in self._people:
            person.client.close()


@contextlib.contextmanager
def started_gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.kill()
