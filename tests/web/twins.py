"""Two owners with the same data and a random marker for everything of each, and requests to every route.

The name of the first owner, read as a pattern, matches that of the second. An operator acts on the data of both, and
their jobs fail in workers with command lines, which no owner may see.
"""

import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from random import SystemRandom
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import httpx
import msgspec
from access_client import Web

from mulligan import App, FinalError, JobFilter, Owner, RetryPolicy, Service, attempt
from mulligan.lifecycle import EVENT_TYPES
from mulligan.records.counts import COLUMNS
from mulligan.records.failure_group import GROUP_ORDERS
from mulligan.records.key import Scope
from mulligan.records.statistics import OUTCOMES, SPANS
from mulligan.web.api import GROUPS
from mulligan.web.filters import Filter
from mulligan.web.route import Route, collect

ROUTES = collect(GROUPS)
PATIENCE = 30
ONCE = RetryPolicy(max_attempts=1)
# Answers that do not end.
ENDLESS = {"/events/stream"}


# Digits at the end of each marker.
NUMBER = 12


def draw(name: str) -> str:
    return f"{name}{SystemRandom().randrange(10 ** (NUMBER - 1), 10**NUMBER)}"


@dataclass
class Side:
    """One owner. `ids` are by the name of the parameter that takes them."""

    owner: str
    marker: str
    key: str = ""
    ids: dict[str, str] = field(default_factory=dict)


class Twins:
    """`mine` and `theirs`. `operator`, `reason` and `command` are markers that neither may see."""

    def __init__(self, url: str) -> None:
        self.mine, self.theirs = Side("ac%", draw("mine")), Side("", draw("theirs"))
        self.theirs.owner = f"acme {self.theirs.marker}"
        self.operator, self.reason, self.command = draw("operator"), draw("reason"), draw("command")
        owners = [Owner(side.owner, retries_per_day=100) for side in self.sides]
        self.app = App(url, owners=owners, services=[Service("gateway"), Service("site:*")])
        self.gate, self.is_held = threading.Event(), threading.Barrier(3)
        self._define_tasks()
        self.app.migrate()
        self.web = Web(self.app)

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.mine, self.theirs

    def _define_tasks(self) -> None:
        app, command = self.app, self.command

        @app.task("works", public=True)
        def works(text: str) -> str:
            return text

        @app.task("fails", public=True, retry=ONCE)
        def fails(text: str) -> None:
            raise FinalError(text, code="NOT_PDF")

        @app.task("breaks", public=True, retry=ONCE)
        def breaks(text: str) -> None:
            """Fail in a group of the owner alone; the groups of the others are the same for both."""
            raise FinalError(f"no pages of {text[:-NUMBER]}", code="NO_PAGES")

        @app.task("runs", public=True, retry=ONCE)
        def runs(text: str) -> None:
            raise subprocess.CalledProcessError(3, ["sh", "-c", command, text], stderr=command.encode())

        @app.task("calls", public=True, service=lambda text: f"site:{text}")
        def calls(text: str) -> None: ...

        @app.task("holds", public=True)
        def holds(text: str) -> None:
            attempt().progress(0.5, text)
            self.is_held.wait(PATIENCE)
            assert self.gate.wait(PATIENCE)

    @contextmanager
    def filled(self) -> Iterator["Twins"]:
        """With the data of both, while one job of each runs."""
        for side in self.sides:
            self._fill(side)
        self._notify()
        for side in self.sides:
            self.app.tasks["holds"].options(owner=side.owner).enqueue(side.marker)
        self._worker.start()
        try:
            self.is_held.wait(PATIENCE)
            yield self
        finally:
            self.finish()
            self.app.close()

    def finish(self) -> None:
        """Let the running jobs end, and the worker."""
        self.gate.set()
        self._worker.join(PATIENCE)

    @cached_property
    def _worker(self) -> threading.Thread:
        return threading.Thread(target=lambda: self.app.run_until_idle(timeout=PATIENCE, concurrency=4))

    def _fill(self, side: Side) -> None:
        app, given = self.app, {"owner": side.owner, "tags": [side.marker]}
        kinds = ("works", "fails", "breaks", "runs")
        jobs = {kind: app.tasks[kind].options(**given).enqueue(side.marker) for kind in kinds}
        app.tasks["works"].options(**given, dedupe=side.marker, delay="1h").enqueue(side.marker)
        app.tasks["calls"].options(**given, delay="1h").enqueue(side.marker)
        app.run_until_idle(timeout=PATIENCE)
        batch = app.batch(side.marker, owner=side.owner)
        batch.add(app.tasks["works"].options(delay="1h", tags=[side.marker]).bind(side.marker))
        self._operate(side, jobs["fails"].id)
        redrive = app.redrive(
            JobFilter(state="failed"), owner=side.owner, rate="1/h", canary=0, actor=self.operator, reason=self.reason
        )
        side.key = self.web.key(side.owner)
        made = self.web.request("POST", "/keys", side.key, json={"name": side.marker}).json()
        side.ids = {
            "job_id": jobs["runs"].id,
            "batch_id": batch.id,
            "redrive_id": redrive.id,
            "key_id": made["key"]["id"],
            "part": jobs["fails"].id[-12:],
            "owner": side.owner,
            "group": self._decide(side),
        }
        hook = app.create_hook(side.marker, group=side.ids["group"], owner=side.owner, actor=self.operator)
        side.ids["hook_id"] = hook.hook.id

    def _decide(self, side: Side) -> str:
        """Decide about the groups of a side. Return one that it has alone."""
        self.app.run_duty("project")
        for group in self.app.failures(owner=side.owner).groups:
            self.app.ignore_failure(group.id, "1h", actor=self.operator, reason=self.reason)
        (own,) = self.app.failures(owner=side.owner, kind="breaks").groups
        return own.id

    def _notify(self) -> None:
        """Tell both of a change by the operator, who disables the subscriptions before anything is sent."""
        app, said = self.app, {"actor": self.operator, "reason": self.reason}
        for side in self.sides:
            to = f"https://example.org/{side.marker}"
            made = app.subscribe(
                side.marker, types=["job.cancelled"], channel="webhook", to=to, owner=side.owner, actor=self.operator
            )
            side.ids["subscription_id"] = made.subscription.id
        for side in self.sides:
            given = {"owner": side.owner, "tags": [side.marker], "delay": "1h"}
            app.cancel(app.tasks["works"].options(**given).enqueue(side.marker).id, **said)
        app.run_duty("notify")
        for side in self.sides:
            (told,) = app.deliveries(owner=side.owner)
            side.ids["delivery_id"] = told.id
            app.disable_subscription(side.ids["subscription_id"], **said)
        app.run_until_idle(timeout=PATIENCE)

    def _operate(self, side: Side, job: str) -> None:
        """Leave the name of the operator everywhere."""
        said = {"actor": self.operator, "reason": self.reason}
        self.app.retry(job, **said)
        self.app.run_until_idle(timeout=PATIENCE)
        ended = self.app.redrive(JobFilter(state="failed"), owner=side.owner, **said)
        self.app.cancel_redrive(ended.id, **said)
        self.app.cancel_batch(self.app.batch(side.marker, owner=side.owner).publish().id, **said)
        self.app.pause("1h", queue="default", **said)
        self.app.resume(queue="default", **said)
        self.app.service("gateway").open(**said)
        key = self.app.create_key(owner=side.owner, name=side.marker, actor=self.operator)
        self.app.revoke_key(key.key.id, actor=self.operator)

    @cached_property
    def workers(self) -> list[str]:
        return [worker.incarnation for worker in self.app.workers()]

    @cached_property
    def admin(self) -> str:
        return self.web.key(None, *Scope)


class Asked(NamedTuple):
    route: Route
    path: str
    """With its query."""

    def __str__(self) -> str:
        return f"{self.route.method} {self.path}"


def path_of(route: Route, values: Mapping[str, str]) -> str:
    """The path with these values, below the prefix of the route."""

    def fill(found: re.Match[str]) -> str:
        return quote(values.get(found[1], "unknown"), safe="", errors="surrogatepass")

    return re.sub(r"{(\w+)(?::\w+)?}", fill, route.path)


def fields_of(kind: type[msgspec.Struct] | None) -> list[str]:
    return [] if kind is None else [each.encode_name for each in msgspec.structs.fields(kind)]


def values_of(name: str, sides: tuple[Side, ...]) -> list[str]:
    """Values of a query parameter: everything that leads to the data of a side."""
    ids = [side.ids for side in sides]
    own: dict[str, list[str]] = {
        "ids": [each["job_id"] for each in ids],
        "job": [each["job_id"] for each in ids],
        "batch": [each["batch_id"] for each in ids],
        "subscription": [each["subscription_id"] for each in ids],
        "about": [each["job_id"] for each in ids],
        "digest": [each["delivery_id"] for each in ids],
        "group": [each["group"] for each in ids],
        "cursor": ["1", *(value for each in ids for name, value in each.items() if name.endswith("_id"))],
        "owner": [side.owner for side in sides],
        "tag": [side.marker for side in sides],
        "service": ["gateway", *(f"site:{side.marker}" for side in sides)],
        "state": ["failed", "waiting", "running", "ignored", "skipped"],
        "order": list(GROUP_ORDERS),
        "span": list(SPANS),
        "outcome": list(OUTCOMES),
        "by": list(COLUMNS),
        "format": ["csv", "jsonl"],
        "events": ["true"],
        "reveal": ["true"],
        "limit": ["1", "1000"],
        "kind": ["runs", "works"],
        "types": list(EVENT_TYPES[:3]),
        "since": ["2020-01-01T00:00:00Z"],
        "until": ["2099-01-01T00:00:00Z"],
        "finished_since": ["2020-01-01T00:00:00Z"],
    }
    numbers = {"after": ["0"], "back": ["0", "1000"]}
    words = {word: ["default"] for word in ("queue", "code", "last_code", "version", "worker")}
    return (own | numbers | words | {"error_class": ["final"]})[name]


def reads(routes: list[Route], sides: tuple[Side, ...]) -> Iterator[Asked]:
    """Every GET: with the ids of each side, and with each parameter of its query."""
    for route in routes:
        if route.method != "GET" or route.path in ENDLESS:
            continue
        for side in sides if route.parameters else sides[:1]:
            for what in ("job", "batch", "redrive") if "what" in route.parameters else ("",):
                path = path_of(route, side.ids | {"what": what})
                yield Asked(route, path)
                queries = [(name, value) for name in fields_of(route.query) for value in values_of(name, sides)]
                yield from (Asked(route, f"{path}?{urlencode([query])}") for query in queries)


def ask(client: httpx.AsyncClient, asked: Asked, key: str, **given: Any) -> Any:
    whole = asked.route.prefix + asked.path
    return client.request(asked.route.method, whole, headers={"Authorization": f"Bearer {key}"}, **given)


# What a parameter of a path, a query or a body takes, if it may belong to an owner; by its name, the name of the id.
IDS = {
    "job_id": "job_id",
    "job": "job_id",
    "ids": "job_id",
    "batch_id": "batch_id",
    "batch": "batch_id",
    "redrive_id": "redrive_id",
    "key_id": "key_id",
    "part": "part",
    "owner": "owner",
    "of_owner": "owner",
    "group": "group",
    "subscription_id": "subscription_id",
    "subscription": "subscription_id",
    "delivery_id": "delivery_id",
    "about": "job_id",
    "hook_id": "hook_id",
}
CURSORS = {
    "/jobs": "job_id",
    "/batches": "batch_id",
    "/keys": "key_id",
    "/audit": "job_id",
    "/subscriptions": "subscription_id",
    "/deliveries": "delivery_id",
    "/hooks": "hook_id",
}
# The cursor is a number, which belongs to no owner.
NUMBERED = {"/failures"}
# The rest of a body that a change needs to come to the id. Nothing is changed that the caller does not own.
BODIES: dict[str, dict[str, Any]] = {
    "/jobs": {"kind": "works", "arguments": {"text": ""}},
    "/jobs/{job_id}/snooze": {"delay": "1h"},
    "/batches/{batch_id}/jobs": {"jobs": [{"kind": "works", "arguments": {"text": ""}}]},
    "/jobs/purge": {"older_than": "1s", "dry_run": True},
    "/redrives": {"dry_run": True, "filter": {}},
    "/batches": {"name": "some"},
    "/keys": {"name": "some"},
    "/subscriptions": {
        "name": "some",
        "types": ["job.failed"],
        "channel": "webhook",
        "to": "https://example.org/",
    },
    "/hooks": {"name": "some", "group": "some"},
    "/failures/{group}/retry": {"dry_run": True},
    "/jobs/bulk/cancel": {"dry_run": True},
    "/jobs/bulk/run-now": {"dry_run": True},
    "/jobs/bulk/snooze": {"dry_run": True, "delay": "1h"},
}


@dataclass(frozen=True)
class Guess:
    """A request with the id of another owner in one place: a parameter, or a field of the body or of its filter."""

    route: Route
    place: str
    value: str

    def __str__(self) -> str:
        return f"{self.route.method} {self.route.path}: {self.place}"

    def with_id(self, value: str) -> Asked:
        path = path_of(self.route, {"what": "job", self.place: value})
        is_query = self.place in fields_of(self.route.query)
        return Asked(self.route, f"{path}?{urlencode({self.place: value})}" if is_query else path)

    def body(self, value: str) -> dict[str, Any]:
        if self.route.body is None:
            return {}
        body = dict(BODIES.get(self.route.path, {}))
        where, _, field = self.place.rpartition(".")
        if where or self.place in fields_of(self.route.body):
            given = [value] if field == "ids" else value
            body |= {where: {field: given}} if where else {field: given}
        # Each name can be used once.
        body |= {"name": value} if "name" in body else {}
        return {"json": body}


def guesses(routes: list[Route], side: Side) -> Iterator[Guess]:
    for route in routes:
        if route.is_admin:
            continue
        names = [*route.parameters, *fields_of(route.query), *fields_of(route.body)]
        if "filter" in names:
            names += [f"filter.{name}" for name in fields_of(Filter)]
        for name in names:
            if name == "cursor" and route.path in NUMBERED:
                continue
            if name == "cursor":
                yield Guess(route, name, side.ids[CURSORS[route.path]])
            elif known := IDS.get(name.rpartition(".")[2]):
                yield Guess(route, name, side.ids[known])


def to_missing(value: str) -> str:
    """An id, or a name, that does not exist and sorts beside it."""
    last = ord(value[-1])
    return value[:-1] + chr(last - 1 if value[-1] in "9fzZ" else last + 1)
