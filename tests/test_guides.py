"""The programs of the guides, taken out of them and run as a reader would: real servers, real workers."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from live import SOON, eventually

GUIDES = Path(__file__).parent.parent / "docs" / "guides"
FILE = re.compile(r"<!-- file: (.*?) -->\n```python\n(.*?)```", re.DOTALL)
# What a server may take to start on a busy machine.
STARTED = 90.0
ADDRESS = re.compile(r"https?://127\.0\.0\.1:([1-9]\d*)")


def written(guide: str, folder: Path) -> None:
    """The files of a guide, as they stand there."""
    files = FILE.findall((GUIDES / f"{guide}.md").read_text("utf-8"))
    assert files
    for name, text in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "PYTHONUNBUFFERED": "1"}


def python(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=STARTED
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Server:
    """A program that goes on until it is told to stop; what it says is kept."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.said = ""
        self._process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said += line

    @property
    def address(self) -> str:
        eventually(lambda: ADDRESS.search(self.said) or self._process.poll() is not None, STARTED)
        found = ADDRESS.search(self.said)
        assert found, self.said
        return f"http://127.0.0.1:{found[1]}"

    def stop(self) -> int:
        self._process.terminate()
        try:
            return self._process.wait(SOON)
        finally:
            self._process.kill()
            self._process.wait()
            self._listener.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


@contextlib.contextmanager
def serving(folder: Path, *words: str) -> Iterator[Server]:
    server = Server(folder, *words)
    try:
        yield server
    finally:
        server.stop()


def finished(client: httpx.Client, job: str) -> dict[str, Any]:
    def is_over() -> bool:
        return client.get(f"/jobs/{job}").json()["state"] in ("succeeded", "failed")

    eventually(is_over, STARTED)
    found: dict[str, Any] = client.get(f"/jobs/{job}").json()
    return found


def test_fastapi_enqueues_works_and_answers_in_one_process(tmp_path: Path) -> None:
    written("fastapi", tmp_path)
    with serving(tmp_path, "-m", "uvicorn", "shop:web", "--port", "0") as server:
        with httpx.Client(base_url=server.address, timeout=SOON) as client:
            accepted = client.post("/orders/7")
            assert accepted.status_code == 202
            found = finished(client, accepted.json()["job"])
            assert found == {"state": "succeeded", "result": "order 7 is on its way", "error": None}
            assert client.get("/jobs/nonsense").status_code == 404
        server.stop()
        assert "Application shutdown complete" in server.said
        assert "Traceback" not in server.said


def mounted(guide: str) -> str:
    """The code with which a guide mounts the HTTP API."""
    _, _, rest = (GUIDES / f"{guide}.md").read_text("utf-8").partition("## Mount the HTTP API")
    code = re.search(r"```py\n(.*?)```", rest, re.DOTALL)
    assert code
    return code[1]


def has_api(address: str) -> None:
    with httpx.Client(base_url=f"{address}/ops", timeout=SOON) as client:
        assert client.get("/readyz").json() == {"status": "ok"}
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/ops"}]
        assert client.get("/api/v1/jobs").json()["code"] == "UNAUTHORIZED"


def test_fastapi_has_the_http_api_below_a_path(tmp_path: Path) -> None:
    written("fastapi", tmp_path)
    with (tmp_path / "shop.py").open("a") as shop:
        shop.write(f"\n{mounted('fastapi')}")
    with serving(tmp_path, "-m", "uvicorn", "shop:web", "--port", "0") as server:
        has_api(server.address)
        assert httpx.get(f"{server.address}/jobs/nonsense", timeout=SOON).status_code == 404


def test_flask_enqueues_and_a_worker_beside_it_works(tmp_path: Path) -> None:
    written("flask", tmp_path)
    with (
        serving(tmp_path, "-m", "flask", "--app", "shop:web", "run", "--port", "0") as server,
        serving(tmp_path, "-m", "mulligan", "worker", "shop:jobs"),
        httpx.Client(base_url=server.address, timeout=SOON) as client,
    ):
        accepted = client.post("/orders/7")
        assert accepted.status_code == 202
        found = finished(client, accepted.json()["job"])
        assert found == {"state": "succeeded", "result": "order 7 is on its way, says shop", "error": None}
        assert client.get("/jobs/nonsense").status_code == 404


ISOLATED = """

@app.task(isolate=True)
def count(number: int) -> int:
    return Order.objects.filter(number=number, is_shipped=True).count()
"""
SCRIPT = "from shop.tasks import app, count; print(app.wait(count.enqueue(7), timeout='30s'))"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a Django project is begun, with the guide's files in it."""
    folder = tmp_path_factory.mktemp("django")
    python(folder, "-m", "django", "startproject", "project", ".")
    python(folder, "manage.py", "startapp", "shop")
    written("django", folder)
    with (folder / "shop" / "tasks.py").open("a") as tasks:
        tasks.write(ISOLATED)
    for words in ("makemigrations shop", "migrate", "mulligan migrate"):
        python(folder, "manage.py", *words.split())
    return folder


def test_django_stores_jobs_in_its_transactions_and_its_command_works_them_off(project: Path) -> None:
    with (
        serving(project, "manage.py", "runserver", "--noreload", "127.0.0.1:0") as server,
        serving(project, "manage.py", "mulligan_worker", "--concurrency", "2") as worker,
        httpx.Client(base_url=server.address, timeout=SOON) as client,
    ):
        assert client.post("/orders/1?oops=1").status_code == 500
        accepted = client.post("/orders/7")
        assert accepted.status_code == 202
        found = finished(client, accepted.json()["job"])
        assert found == {"state": "succeeded", "result": "order 7 is on its way", "error": None}
        assert client.get("/jobs/nonsense").status_code == 404
        counted = python(project, "manage.py", "shell", "--no-imports", "-c", SCRIPT)
        assert counted.splitlines()[-1] == "1", "a child process finds Django set up"
        assert worker.stop() == 0
        assert "2 jobs at a time" in worker.said
        assert "Traceback" not in worker.said
    listed = python(project, "manage.py", "mulligan", "jobs", "list", "--version", "1.0", "--kind", "ship", "--json")
    assert listed.count('"kind": "ship"') == 1, "the one that was rolled back is not there"


def test_django_has_the_http_api_below_a_path(project: Path) -> None:
    asgi = project / "project" / "asgi.py"
    asgi.write_text(f"{asgi.read_text()}\n{mounted('django')}")
    with serving(project, "-m", "uvicorn", "project.asgi:application", "--port", "0") as server:
        has_api(server.address)
        assert httpx.get(f"{server.address}/jobs/nonsense", timeout=SOON).status_code == 404


def test_django_settings_that_cannot_work_are_named(project: Path) -> None:
    settings = project / "project" / "settings.py"
    good = settings.read_text()
    for bad, words in (
        ('MULLIGAN = {"speed": 9}', "MULLIGAN has an option that App(…) does not take"),
        ("MULLIGAN = 7", "MULLIGAN must be a dictionary"),
        ('DATABASES["default"]["ENGINE"] = "django.db.backends.mysql"', "set MULLIGAN = {'url': …}"),
    ):
        settings.write_text(f"{good}\n{bad}\n")
        with pytest.raises(AssertionError, match=re.escape(words)):
            python(project, "manage.py", "mulligan", "jobs", "list")
    settings.write_text(good)


@pytest.mark.parametrize(
    ("database", "url"),
    [
        ({"ENGINE": "django.db.backends.sqlite3", "NAME": "/data/db.sqlite3"}, "sqlite:////data/db.sqlite3"),
        ({"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}, "postgresql:///shop"),
        (
            {
                "ENGINE": "django.contrib.gis.db.backends.postgis",
                "NAME": "my shop",
                "USER": "a@b",
                "PASSWORD": "p/w:",
                "HOST": "db",
                "PORT": 5433,
            },
            "postgresql://a%40b:p%2Fw%3A@db:5433/my%20shop",
        ),
        (
            {"ENGINE": "django.db.backends.postgresql", "NAME": "shop", "USER": "ann", "HOST": "/run/postgres"},
            "postgresql://ann@%2Frun%2Fpostgres/shop",
        ),
    ],
)
def test_a_database_of_django_as_a_url(database: dict[str, Any], url: str) -> None:
    # In a process of its own: Django is configured once.
    program = (
        "from django.conf import settings\n"
        "settings.configure(MULLIGAN={'url': 'sqlite:///:memory:'})\n"
        "from mulligan.contrib.django.configured import url_of\n"
        f"print(url_of({database!r}))"
    )
    assert python(Path.cwd(), "-c", program).strip() == url


def test_the_script_works_off_its_jobs_and_does_none_twice(tmp_path: Path) -> None:
    written("scripts", tmp_path)
    (tmp_path / "pictures").mkdir()
    for name in ("a.png", "b.png", "c.txt"):
        (tmp_path / "pictures" / name).write_text("dots")
    said = python(tmp_path, "thumbnails.py").splitlines()
    assert said[0].startswith("NO_PICTURE: ")
    assert said[-1] == "{'succeeded': 2, 'failed': 1}"
    assert python(tmp_path, "thumbnails.py").splitlines()[-1] == "{'failed': 2, 'succeeded': 2}"


SPENDING = """
import sqlite3
from can_retry import app, charge
from mulligan import InsufficientCredits

app.migrate()
with sqlite3.connect("jobs.db") as connection:
    connection.execute("CREATE TABLE credits AS SELECT 1 AS balance")
first, second = charge.enqueue(1), charge.enqueue(2)
app.run_until_idle()
print(app.retry(first.id).state, end="; ")
try:
    app.retry(second.id)
except InsufficientCredits as error:
    print(error, end="; ")
print(sqlite3.connect("jobs.db").execute("SELECT balance FROM credits").fetchone()[0])
"""


def test_what_the_guide_of_hooks_says_of_a_failure_is_so(tmp_path: Path) -> None:
    written("hooks", tmp_path)
    assert python(tmp_path, "on_failed.py").strip() == (
        "[('refund', 'succeeded', 'refunded, because of CARD_REFUSED'), ('charge', 'failed', None)]"
    )


def test_the_precondition_of_the_guide_spends_a_credit_once(tmp_path: Path) -> None:
    written("hooks", tmp_path)
    (tmp_path / "spend.py").write_text(SPENDING, "utf-8")
    assert python(tmp_path, "spend.py").strip() == "queued; this needs 1 credits, 0 are available; 0"


def test_the_hooks_of_the_guide_run(tmp_path: Path) -> None:
    written("hooks", tmp_path)
    around = "import logging; logging.basicConfig(level='INFO'); from around import app\n"
    around += "app.task('work')(print).enqueue(); app.run_until_idle()"
    done = subprocess.run(
        [sys.executable, "-c", around], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True
    )
    assert "work, attempt 1" in done.stderr
    with serving(tmp_path, "-m", "http.server", "--bind", "127.0.0.1", "0") as server:
        eventually(lambda: "port" in server.said)
        port = re.findall(r"port (\d+)", server.said)[0]
        fetch = f"from lifespan import app, fetch; job = fetch.enqueue('http://127.0.0.1:{port}/lifespan.py')\n"
        fetch += "app.run_until_idle(); print(app.wait(job, timeout=30))"
        assert python(tmp_path, "-c", fetch).strip() == "200"
