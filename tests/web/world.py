"""An app with something of everything that the API is about, and clients with different keys."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from local_access import LocalAccess
from starlette.applications import Starlette
from starlette.testclient import TestClient

from mulligan import App, FinalError, Job, Owner, Queue, RetryPolicy, Service
from mulligan.errors import InsufficientCredits, NotAllowed
from mulligan.web.server import asgi

API = "/api/v1"


@dataclass(frozen=True)
class Page:
    """A value that is not built in, so that it has a schema of its own."""

    number: int
    text: str = ""


def make_app(url: str) -> App:
    app = App(
        url,
        services=[Service("gateway"), Service("site:*")],
        queues=[Queue("bulk", concurrency=50)],
        owners=[Owner("acme", retries_per_day=1000), Owner("slow", submit_rate="1/h"), Owner("small", max_live=1)],
    )

    @app.task(public=True)
    def convert(path: Path, pages: int = 1, options: dict[str, bool] | None = None) -> str:
        """Convert a file."""
        return f"{path}: {pages}"

    @app.task(public=True, retry=RetryPolicy(max_attempts=1), service="gateway")
    def reject(why: str = "broken", page: Page | None = None) -> None:
        raise FinalError(why, code="NOT_PDF")

    @app.task(public=True)
    def count() -> int:
        return 1

    @app.task
    def hidden() -> None: ...

    def can_retry(job: Job[Any]) -> None:
        match job.arguments:
            case {"why": "poor"}:
                raise InsufficientCredits(5, 2)
            case {"why": "gone"}:
                raise NotAllowed("the source is gone", code="EXPIRED", status=410)
            case {"why": "no"}:
                raise NotAllowed("not this one")

    @app.task(public=True, retry=RetryPolicy(max_attempts=1), can_retry=can_retry)
    def guarded(why: str) -> None:
        raise FinalError("no")

    @app.cron("0 3 * * *")
    @app.task
    def nightly() -> None: ...

    return app


class World:
    """`admin`, `acme` and `other` are clients with the keys of these names; `anonymous` has none."""

    def __init__(self, url: str) -> None:
        self.app = make_app(url)
        self.app.migrate()
        self.asgi = asgi(self.app, LocalAccess())

    def client(self, key: str | None, application: Any = None, **options: Any) -> TestClient:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return TestClient(application or self.asgi, headers=headers, raise_server_exceptions=False, **options)

    @cached_property
    def admin(self) -> TestClient:
        return self.client("admin", base_url=f"http://testserver{API}")

    @cached_property
    def acme(self) -> TestClient:
        return self.client("acme", base_url=f"http://testserver{API}")

    @cached_property
    def other(self) -> TestClient:
        return self.client("other", base_url=f"http://testserver{API}")

    @cached_property
    def anonymous(self) -> TestClient:
        return self.client(None)

    def task(self, name: str) -> Any:
        return self.app.tasks[name]

    def failed(self, kind: str = "reject", *, owner: str = "acme", **arguments: Any) -> Job[Any]:
        """A job that has failed."""
        job = self.task(kind).options(owner=owner).enqueue(**arguments)
        self.app.run_until_idle()
        return self.app.job(job.id)

    def queued(self, *, owner: str = "acme", **options: Any) -> Job[Any]:
        return self.task("convert").options(owner=owner, **options).enqueue(Path("a.pdf"))

    def succeeded(self, *, owner: str = "acme", **options: Any) -> Job[Any]:
        job = self.queued(owner=owner, **options)
        self.app.run_until_idle()
        return self.app.job(job.id)


__all__ = ["API", "Starlette", "World", "make_app"]
