"""The screenshot API on a store, with its delays divided by a hundred, and programs that use it."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import httpx
from apps.screenshots.app import COSTS, TAG, Screenshots
from apps.screenshots.site import build_site
from screenshots_make import make_screenshots
from screenshots_sites import Sites
from site_server import serve

from live import SOON, working
from mulligan import Job, JobCancelled, JobFailed, JobFilter, State

__all__ = ["NOWHERE", "PRIVATE", "World", "make_screenshots", "serving"]

# They fail without a browser: one may exist later, the other is final.
NOWHERE, PRIVATE = "http://nowhere.test/", "http://private.test/"


class World:
    """An installation, as its customer `owner` sees it."""

    def __init__(self, screenshots: Screenshots, base: str, sites: Sites, owner: str = "acme") -> None:
        self.all, self.app, self.base, self.sites, self.owner = screenshots, screenshots.app, base, sites, owner
        self._clients = contextlib.ExitStack()

    @contextlib.contextmanager
    def as_owner(self, owner: str) -> Iterator["World"]:
        """For a test that counts credits in an installation that others use too."""
        found = World(self.all, self.base, self.sites, owner)
        with found._clients:
            yield found

    def key(self, owner: str | None = "acme", **options: Any) -> str:
        return self.app.create_key(owner=owner, name="test", **options).token

    def client(self, owner: str | None = "acme", **options: Any) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.key(owner, **options)}"}
        client = httpx.Client(base_url=f"{self.base}/api/v1", headers=headers, timeout=30)
        return self._clients.enter_context(client)

    def close(self) -> None:
        self._clients.close()
        self.all.database.close()
        self.app.close()

    @cached_property
    def acme(self) -> httpx.Client:
        return self.client(self.owner)

    @cached_property
    def operator(self) -> httpx.Client:
        return self.client(None)

    def submit(self, url: str, **fields: Any) -> str:
        answer = self.acme.post("/screenshots", json={"url": url, **fields})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["jobId"])

    def show(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.acme.get(f"/screenshots/{job_id}").json()
        return found

    def retry(self, job_id: str, **body: Any) -> httpx.Response:
        return self.acme.post(f"/screenshots/{job_id}/retry", json=body)

    def wait(self, job_id: str) -> dict[str, Any]:
        """The capture when it is over."""
        with contextlib.suppress(JobFailed, JobCancelled):
            self.app.wait(job_id, timeout=SOON)
        return self.show(job_id)

    def balance(self) -> int:
        with self.all.database.read() as connection:
            return self.all.credits.balance(connection, self.owner)

    def settled(self, timeout: str = "5m") -> None:
        """Wait until nothing is left to do, returns of credits included. No job may take longer than `timeout`."""
        live = JobFilter(state=(State.QUEUED, State.RUNNING, State.WAITING))
        while found := self.app.jobs(live).jobs:
            with contextlib.suppress(JobFailed, JobCancelled):
                self.app.wait(found[-1], timeout=timeout)

    def check_ledger(self) -> None:
        check_ledger(self.all)

    @contextlib.contextmanager
    def working(self, **options: Any) -> Iterator[None]:
        with working(self.app, **options):
            yield

    def fail(self, url: str = PRIVATE) -> str:
        """A job that has failed for good, its credits returned."""
        job_id = self.submit(url)
        self.app.run_until_idle(retries=True, timeout="30s")
        assert self.show(job_id)["status"] == "FAILED"
        return job_id


def check_ledger(screenshots: Screenshots) -> None:
    """The balance is the sum of the ledger, and each job holds its cost exactly if it did not end in vain."""
    credits_ = screenshots.credits
    with screenshots.database.read() as connection:
        rows = list(connection.execute(credits_.accounts.select()))
        reserved = {row.job: row for row in connection.execute(credits_.reservations.select())}
        recounted = credits_.recount(connection)
        entries = list(connection.execute(credits_.entries.select()))
    jobs: dict[str, Job[Any]] = {each.job.id: each.job for each in screenshots.app.export(JobFilter(tag=TAG))}
    assert {row.owner: row.balance for row in rows} == recounted
    assert set(reserved) == set(jobs)
    net_of: Counter[str] = Counter()
    for entry in entries:
        net_of[entry.job] += entry.amount
    for job_id, job in jobs.items():
        net = net_of[job_id]
        owed = 0 if job.state in (State.FAILED, State.CANCELLED) else -COSTS[job.kind]
        assert (net, reserved[job_id].is_held) == (owed, owed != 0), job


@contextlib.contextmanager
def serving(screenshots: Screenshots, sites: Sites) -> Iterator[World]:
    site = build_site(screenshots)
    with serve(site.app, site.asgi()) as served:
        world = World(screenshots, served.base, sites)
        try:
            yield world
        finally:
            world.close()
