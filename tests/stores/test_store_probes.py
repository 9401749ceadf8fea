"""Real workers probe a service with probe jobs, on both stores: no other job is tried before the service is up."""

from datetime import timedelta
from pathlib import Path

import pytest
from postgres_server import PostgresServer

from live import eventually, working
from mulligan import App, JobFilter, RetryPolicy, Service, State
from mulligan.service.records import PROBE_KIND
from mulligan.settings import Settings


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    server: PostgresServer = request.getfixturevalue("server")
    return server.fresh_database("probes")


class Gateway:
    def __init__(self) -> None:
        self.is_well = False
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        if not self.is_well:
            raise ConnectionRefusedError("refused")

    def probe(self) -> None:
        if not self.is_well:
            raise ConnectionRefusedError("refused")


def shop(url: str, gateway: Gateway) -> App:
    settings = Settings(database_url=url, duty_probe_interval=timedelta(milliseconds=100))
    service = Service("gateway", window=2, cooldown="100ms", probe=gateway.probe)
    app = App(settings=settings, services=[service])
    app.task("pay", service="gateway", queue="money", retry=RetryPolicy(2))(gateway.call)
    app.migrate()
    return app


def test_a_service_is_probed_until_it_is_well_and_then_its_jobs_run(url: str) -> None:
    gateway = Gateway()
    with shop(url, gateway) as app:

        def probes() -> list[bool]:
            done = app.jobs(JobFilter(kind=PROBE_KIND, state=State.SUCCEEDED)).jobs
            return [job.result["ok"] for job in done]

        pay = app.tasks["pay"]
        app.enqueue_many([pay.bind(), pay.bind()])
        # A worker that does not serve the default queue: its probes go where it takes them.
        with working(app, queues=["money"]):
            eventually(lambda: app.service("gateway").status.state != "closed")
            held = app.enqueue_many([pay.bind() for _ in range(5)])
            eventually(lambda: len(probes()) >= 2)
            assert gateway.calls == 2
            gateway.is_well = True
            eventually(lambda: {app.job(job.id).state for job in held} == {State.SUCCEEDED})
        # Newest first. A duty that saw the service open may enqueue one more probe after it has closed.
        assert probes()[0]
        assert probes() == sorted(probes(), reverse=True)
        assert app.jobs(JobFilter(kind=PROBE_KIND, state=State.FAILED)).jobs == ()
