"""The demo in a browser: one link, buttons that break and heal the gateway, and an end within seconds."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from live import SOON
from mulligan import App
from mulligan.cli.demo import guarded, tasks
from mulligan.cli.demo.dashboard import has_display
from mulligan.cli.demo.faults import WORDS, ManualFaults, Phase
from mulligan.cli.demo.page import BUTTONS, demo_pages, describe_demo
from mulligan.cli.demo.producer import Producer
from mulligan.service.records import ServiceStatus
from mulligan.web.server import asgi

HIDDEN = ("csrf", "request", "back")


def fields(html: str, *names: str) -> dict[str, str]:
    return {name: re.findall(rf'name="{name}" value="([^"]*)"', html)[0] for name in names}


# The page


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    settings = replace(guarded.app.settings, database_url=f"sqlite:///{tmp_path}/demo.db")
    monkeypatch.setattr(guarded.app, "settings", settings)
    with guarded.app as found:
        yield found


@pytest.fixture
def faults() -> ManualFaults:
    return ManualFaults()


@pytest.fixture
def client(app: App, faults: ManualFaults) -> Iterator[TestClient]:
    with TestClient(asgi(app, pages=[demo_pages(faults)])) as found:
        sign_in(found, app, owner=None)
        yield found


def sign_in(client: TestClient, app: App, owner: str | None) -> None:
    created = app.create_key(owner=owner, name="test")
    assert client.post("/sign-in", data={"key": created.token, "next": "/help"}).status_code == 200


def test_buttons_break_and_heal_the_gateway(client: TestClient, faults: ManualFaults) -> None:
    for phase in (Phase.DOWN, Phase.SLOW, Phase.CROWDED, Phase.HICCUPS, Phase.HEALTHY):
        shown = client.get("/demo").text
        assert f'name="phase" value="{phase}"' in shown
        answer = client.post("/demo/fault", data={**fields(shown, *HIDDEN), "phase": phase})
        assert answer.url.path == "/demo" and f"The gateway {WORDS[phase]}." in answer.text
        assert faults.at(0) is phase
    assert set(BUTTONS) == set(Phase)


def test_a_button_kills_a_worker(client: TestClient, faults: ManualFaults) -> None:
    answer = client.post("/demo/kill", data=fields(client.get("/demo").text, *HIDDEN))
    assert "A worker is killed" in answer.text
    assert faults.kills_due(0) == 1


def test_a_button_of_another_page_is_refused(client: TestClient, faults: ManualFaults) -> None:
    assert client.post("/demo/fault", data={"phase": "down"}).status_code == 403
    hidden = fields(client.get("/demo").text, *HIDDEN)
    assert client.post("/demo/fault", data={**hidden, "phase": "on fire"}).status_code == 400
    assert faults.at(0) is Phase.HEALTHY


def test_only_an_administrator_breaks_it(app: App, faults: ManualFaults) -> None:
    with TestClient(asgi(app, pages=[demo_pages(faults)])) as client:
        sign_in(client, app, owner="acme")
        assert client.get("/demo").status_code == 403
        assert 'href="/demo"' not in client.get("/help").text


def test_other_dashboards_have_no_such_page(app: App) -> None:
    with TestClient(asgi(app)) as client:
        sign_in(client, app, owner=None)
        assert client.get("/demo").status_code == 404
        assert 'href="/demo"' not in client.get("/help").text


def a_service(**status: Any) -> ServiceStatus:
    usual = {"state": "closed", "ready": 3, "parked": 1, "pace": None, "cooldown": tasks.GATEWAY.cooldown}
    return SimpleNamespace(**(usual | status))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("phase", "service", "title"),
    [
        (Phase.HEALTHY, a_service(), "The gateway is healthy. Break it."),
        (Phase.DOWN, a_service(), "The gateway is down: it resets every connection."),
        (Phase.DOWN, a_service(state="open"), "The breaker is open, and 4 jobs are held."),
        (Phase.HEALTHY, a_service(state="open"), "The gateway is well again, and 4 jobs still wait."),
        (Phase.HEALTHY, a_service(state="half_open"), "A job probes the gateway, and 4 jobs wait for the outcome."),
        (Phase.HEALTHY, a_service(pace=4.8), "The gateway has recovered, and 4 jobs wait their turn."),
        (Phase.HEALTHY, a_service(pace=4.8, ready=0), "The gateway has recovered, and 1 job waits its turn."),
        (Phase.HEALTHY, a_service(pace=4.8, ready=0, parked=0), "The gateway has recovered, and no job waits."),
    ],
)
def test_the_page_opens_with_what_goes_on(phase: Phase, service: ServiceStatus, title: str) -> None:
    assert describe_demo(phase, service)[0] == title


def test_fewer_jobs_arrive_while_many_wait(app: App) -> None:
    producer = Producer(app, patience=5)
    producer.produce(4)
    assert 6 <= len(producer.accepted) < 16
    # Also while it is worked off, and no longer than that.
    for job in producer.accepted[4:]:
        app.cancel(job)
    before = len(producer.accepted)
    producer.produce(6)
    assert len(producer.accepted) - before < 8
    for job in producer.accepted[:4] + producer.accepted[before:]:
        app.cancel(job)
    before = len(producer.accepted)
    producer.produce(6.7)
    assert len(producer.accepted) - before == 4
    eager = Producer(app)
    eager.produce(8)
    # The first ones are duplicates of those above.
    assert len(eager.accepted) + eager.duplicates >= 48


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ""}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("darwin", {}, True),
    ],
)
def test_a_browser_is_opened_only_where_there_is_a_display(
    platform: str, environment: dict[str, str], expected: bool
) -> None:
    assert has_display(platform, environment) is expected


# The command


def start(folder: Path, *command: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stop(process: subprocess.Popen[str]) -> tuple[str, str]:
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=SOON)


@pytest.mark.xdist_group("demo")
def test_one_link_opens_the_dashboard_on_which_the_gateway_is_broken(tmp_path: Path) -> None:
    with start(tmp_path, sys.executable, "-m", "mulligan", "demo") as process:
        assert process.stdout is not None
        try:
            link = process.stdout.readline().split()[-1]
            with closing(
                httpx.Client(base_url=link.partition("/sign-in")[0], follow_redirects=True, timeout=SOON)
            ) as client:
                shown = break_it(client, link)
                again = httpx.post(
                    client.base_url.join("/sign-in"), data=fields(client.get(link).text, "link"), timeout=SOON
                )
        finally:
            said, complaints = stop(process)
    assert "The gateway is down" in shown
    assert again.status_code == 403
    assert (process.returncode, complaints) == (0, "")
    assert "/sign-in" not in said and "jobs lost            0" in said


def break_it(client: httpx.Client, link: str) -> str:
    """Sign in, press the button, and wait until the breaker has opened."""
    assert parse_qs(urlsplit(link).query)["next"] == ["/demo"]
    page = client.post("/sign-in", data=fields(client.get(link).text, "link", "next"))
    assert page.url.path == "/demo"
    answer = client.post("/demo/fault", data={**fields(page.text, *HIDDEN), "phase": "down"})
    with client.stream("GET", "/live", timeout=60) as ticks:
        for _ in ticks.iter_lines():
            if "The breaker is open" in (shown := client.get("/demo").text):
                return shown
    return answer.text


@pytest.mark.xdist_group("demo")
def test_without_the_extra_it_runs_in_the_terminal_and_says_so(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['uvicorn'] = None; from mulligan.cli import main; sys.argv[1:] = ['demo']; main()"
    )
    with start(tmp_path, sys.executable, "-c", program) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        said, complaints = stop(process)
    assert "gateway healthy" in first and "jobs lost" in said
    assert complaints == (
        "The dashboard needs uvicorn: pip install 'mulligan[web]'. This is the demo in the terminal.\n"
    )
