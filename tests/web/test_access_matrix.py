"""Every route and every kind of caller: the status that one table expects. A route without an entry fails."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_client import Web

from mulligan import App, FinalError, JobFilter, RetryPolicy
from mulligan.records.key import Scope
from mulligan.records.token import new_token
from mulligan.values.clock import system_secrets
from mulligan.web.api import GROUPS
from mulligan.web.route import Route, collect

READ, ENQUEUE, RETRY, CANCEL = Scope.JOBS_READ, Scope.JOBS_ENQUEUE, Scope.JOBS_RETRY, Scope.JOBS_CANCEL
OPERATE, KEYS, HOOKS = Scope.OPERATE, Scope.KEYS_MANAGE, Scope.WEBHOOKS_MANAGE
OWNER, ADMIN = False, True

# What a key needs for each route: a scope, and whose it must be. None: the route needs no key.
NEEDS: dict[str, tuple[Scope, bool] | None] = {
    "POST /jobs": (ENQUEUE, OWNER),
    "GET /jobs": (READ, OWNER),
    "GET /jobs/counts": (READ, OWNER),
    "GET /jobs/progress": (READ, OWNER),
    "GET /jobs/last-failures": (READ, OWNER),
    "GET /jobs/{job_id}": (READ, OWNER),
    "GET /jobs/{job_id}/events": (READ, OWNER),
    "GET /jobs/{job_id}/explain": (READ, OWNER),
    "GET /jobs/{job_id}/position": (READ, OWNER),
    "POST /jobs/{job_id}/retry": (RETRY, OWNER),
    "POST /jobs/{job_id}/run-now": (RETRY, OWNER),
    "POST /jobs/{job_id}/cancel": (CANCEL, OWNER),
    "POST /jobs/{job_id}/snooze": (CANCEL, OWNER),
    "POST /jobs/{job_id}/expire-result": (CANCEL, OWNER),
    "POST /jobs/{job_id}/release-key": (CANCEL, OWNER),
    "GET /jobs/export": (READ, OWNER),
    "POST /jobs/purge": (CANCEL, OWNER),
    "GET /ids/{what}/{part}": (READ, OWNER),
    "POST /batches": (ENQUEUE, OWNER),
    "GET /batches": (READ, OWNER),
    "GET /batches/{batch_id}": (READ, OWNER),
    "POST /batches/{batch_id}/jobs": (ENQUEUE, OWNER),
    "POST /batches/{batch_id}/publish": (ENQUEUE, OWNER),
    "POST /batches/{batch_id}/retry": (RETRY, OWNER),
    "POST /batches/{batch_id}/cancel": (CANCEL, OWNER),
    "POST /redrives": (RETRY, OWNER),
    "GET /redrives": (READ, OWNER),
    "GET /redrives/{redrive_id}": (READ, OWNER),
    "DELETE /redrives/{redrive_id}": (CANCEL, OWNER),
    "POST /jobs/bulk/cancel": (CANCEL, OWNER),
    "POST /jobs/bulk/snooze": (CANCEL, OWNER),
    "POST /jobs/bulk/run-now": (RETRY, OWNER),
    "GET /failures": (READ, OWNER),
    "GET /failures/{group}": (READ, OWNER),
    "POST /failures/{group}/retry": (RETRY, OWNER),
    "POST /failures/{group}/ignore": (OPERATE, ADMIN),
    "POST /failures/{group}/resolve": (OPERATE, ADMIN),
    "POST /failures/{group}/reopen": (OPERATE, ADMIN),
    "GET /statistics": (READ, OWNER),
    "POST /statistics/rebuild": (OPERATE, ADMIN),
    "GET /subscriptions": (HOOKS, OWNER),
    "POST /subscriptions": (HOOKS, OWNER),
    "GET /subscriptions/{subscription_id}": (HOOKS, OWNER),
    "DELETE /subscriptions/{subscription_id}": (HOOKS, OWNER),
    "POST /subscriptions/{subscription_id}/disable": (HOOKS, OWNER),
    "POST /subscriptions/{subscription_id}/enable": (HOOKS, OWNER),
    "POST /subscriptions/{subscription_id}/rotate": (HOOKS, OWNER),
    "POST /subscriptions/{subscription_id}/test": (HOOKS, OWNER),
    "GET /deliveries": (HOOKS, OWNER),
    "GET /deliveries/{delivery_id}": (HOOKS, OWNER),
    "POST /deliveries/{delivery_id}/redeliver": (HOOKS, OWNER),
    "GET /hooks": (HOOKS, OWNER),
    "POST /hooks": (HOOKS, OWNER),
    "DELETE /hooks/{hook_id}": (HOOKS, OWNER),
    # A signature instead of a key.
    "POST /hooks/{hook_id}": None,
    "GET /services": (READ, ADMIN),
    "GET /services/{name}": (READ, ADMIN),
    "POST /services/{name}/open": (OPERATE, ADMIN),
    "POST /services/{name}/close": (OPERATE, ADMIN),
    "POST /services/{name}/auto": (OPERATE, ADMIN),
    "GET /pauses": (READ, ADMIN),
    "POST /pauses": (OPERATE, ADMIN),
    "DELETE /pauses": (OPERATE, ADMIN),
    "GET /limits": (READ, ADMIN),
    "GET /budgets": (READ, ADMIN),
    "GET /queues": (READ, ADMIN),
    "GET /owners/{owner}/spending": (READ, OWNER),
    "DELETE /owners/{owner}": (OPERATE, ADMIN),
    "GET /policies": (READ, ADMIN),
    "GET /policies/packs": (READ, ADMIN),
    "POST /policies/reclassify": (OPERATE, ADMIN),
    "GET /schedules": (READ, ADMIN),
    "POST /schedules/{name}/run": (OPERATE, ADMIN),
    "DELETE /schedules/{name}": (OPERATE, ADMIN),
    "GET /admin/workers/status": (READ, ADMIN),
    "GET /admin/jobs/stuck": (READ, ADMIN),
    "POST /admin/jobs/stuck": (READ, ADMIN),
    "POST /admin/jobs/process-stuck": (OPERATE, ADMIN),
    "GET /admin/duties": (READ, ADMIN),
    "POST /admin/duties/{name}/run": (OPERATE, ADMIN),
    "POST /admin/retry-scheduler/pause": (OPERATE, ADMIN),
    "POST /admin/retry-scheduler/resume": (OPERATE, ADMIN),
    "GET /projections": (READ, ADMIN),
    "DELETE /projections/{name}": (OPERATE, ADMIN),
    "GET /doctor": (READ, ADMIN),
    "GET /alerts": (READ, ADMIN),
    "PUT /alerts": (OPERATE, ADMIN),
    "POST /alerts/{check}/silence": (OPERATE, ADMIN),
    "POST /alerts/{check}/unsilence": (OPERATE, ADMIN),
    "GET /events": (READ, OWNER),
    "GET /events/position": (READ, OWNER),
    "GET /history": (READ, OWNER),
    "GET /events/stream": (READ, OWNER),
    "GET /keys": (KEYS, OWNER),
    "POST /keys": (KEYS, OWNER),
    "DELETE /keys/{key_id}": (KEYS, OWNER),
    "GET /audit": (KEYS, OWNER),
    "GET /metrics": (READ, ADMIN),
    "GET /healthz": None,
    "GET /readyz": (READ, OWNER),
}
# Routes that are answered without a key; one that is given is checked.
OPEN = {"GET /readyz"}
KEYLESS = {"no key", "key in a cookie", "key in the query"}
# By caller: the status for a route of owners, and for one of administrators. None: the route answers, whatever it says.
STATUS: dict[str, tuple[int | None, int | None]] = {
    "no key": (401, 401),
    "malformed key": (401, 401),
    "unknown key": (401, 401),
    "revoked key": (401, 401),
    "expired key": (401, 401),
    "key in a cookie": (401, 401),
    "key in the query": (401, 401),
    "owner without the scope": (403, 403),
    "owner with all scopes": (None, 403),
    "administrator without the scope": (403, 403),
    "administrator": (None, None),
}
# Bodies that routes need to get as far as the id in their path.
BODIES: dict[str, Any] = {
    "POST /jobs/{job_id}/snooze": {"delay": "1h"},
    "POST /batches/{batch_id}/jobs": {"jobs": [{"kind": "fails", "arguments": {}}]},
}
# Answers that do not end.
ENDLESS = {"GET /events/stream"}
# What a parameter of a path names, if it belongs to an owner.
OWNED = (
    "job_id", "batch_id", "redrive_id", "key_id", "part", "owner", "group", "subscription_id", "delivery_id", "hook_id"
)  # fmt: skip
# Routes whose requests are signed: none of these is.
SIGNED = {"POST /hooks/{hook_id}"}

ROUTES = [pytest.param(route, id=f"{route.method} {route.path}") for route in collect(GROUPS)]


def name_of(route: Route) -> str:
    """`GET /services/{name}`, whatever characters the name may have."""
    return f"{route.method} {re.sub(r':[a-z]+}', '}', route.path)}"


@dataclass
class Site:
    web: Web
    keys: dict[str, str | None]
    ids: dict[str, str]

    def request(self, route: Route, key: str | None, ids: dict[str, str], **given: Any) -> httpx.Response:
        path = re.sub(r"{(\w+)(?::\w+)?}", lambda found: ids.get(found[1], "unknown"), route.path)
        prefix = getattr(route, "prefix", None)
        if route.is_change and route.method != "DELETE":
            given["json"] = BODIES.get(name_of(route), {})
        headers = given.pop("headers", {}) | ({} if key is None else {"Authorization": f"Bearer {key}"})
        whole = ("/api/v1" if prefix is None else prefix) + path
        return self.web.run(lambda client: client.request(route.method, whole, headers=headers, **given))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("matrix")
    with App(f"sqlite:///{folder}/web.db") as app:

        @app.task("fails", retry=RetryPolicy(1), public=True)
        def fails() -> None:
            raise FinalError("no")

        job = fails.options(owner="acme").enqueue()
        app.run_until_idle(timeout="30s")
        app.run_duty("project")
        (group,) = app.failures().groups
        batch = app.batch("a batch", owner="acme")
        redrive = app.redrive(JobFilter(state="failed"), owner="acme", actor="ann")
        subscription = app.subscribe(
            "a hook", types=["job.failed"], channel="webhook", to="https://example.org/hook", owner="acme"
        ).subscription
        web = Web(app)
        ids = {
            "job_id": job.id,
            "batch_id": batch.id,
            "redrive_id": redrive.id,
            "key_id": app.create_key(owner="acme", name="victim").key.id,
            "subscription_id": subscription.id,
            "delivery_id": app.test_subscription(subscription.id).id,
            "hook_id": app.create_hook("a hook", group=group.id, owner="acme").hook.id,
            "what": "job",
            "part": job.id[-12:],
            "owner": "acme",
            "group": group.id,
        }
        yield Site(web, _keys(web), ids)


def _keys(web: Web) -> dict[str, str | None]:
    revoked = web.app.create_key(owner=None, name="revoked")
    web.app.revoke_key(revoked.key.id)
    return {
        "no key": None,
        "malformed key": "mk_nothing",
        "unknown key": new_token(system_secrets).text,
        "revoked key": revoked.token,
        "expired key": web.key(expires_in="1ms"),
        "owner with all scopes": web.key("acme"),
        "other owner": web.key("other"),
        "administrator": web.key(),
    }


def _key(site: Site, caller: str, route: Route) -> tuple[str | None, dict[str, Any]]:
    """The key of this caller, and what else its request has."""
    match caller:
        case "key in a cookie":
            return None, {"headers": {"Cookie": f"key={site.keys['administrator']}"}}
        case "key in the query":
            return None, {"params": {"key": site.keys["administrator"]}}
        case "owner without the scope":
            return site.web.key("acme", *(set(Scope) - {route.scope, Scope.OPERATE})), {}
        case "administrator without the scope":
            return site.web.key(None, *(set(Scope) - {route.scope})), {}
    return site.keys[caller], {}


@pytest.mark.parametrize("route", ROUTES)
def test_a_route_needs_what_the_table_says(route: Route) -> None:
    assert name_of(route) in NEEDS, "a new route needs an entry in NEEDS"
    assert NEEDS[name_of(route)] == (None if route.scope is None else (route.scope, route.is_admin))


@pytest.mark.parametrize("caller", STATUS)
@pytest.mark.parametrize("route", ROUTES)
def test_each_caller_gets_its_status(site: Site, route: Route, caller: str) -> None:
    needs = NEEDS[name_of(route)]
    expected = None if needs is None else STATUS[caller][needs[1]]
    if name_of(route) in OPEN and caller in KEYLESS:
        expected = None
    if expected is None and name_of(route) in ENDLESS:
        pytest.skip("an event stream has no end: test_web_stream.py reads it")
    # What an allowed caller changes must not be missing for the next test.
    ids = site.ids if expected is not None else {}
    key, given = _key(site, caller, route)
    answer = site.request(route, key, ids, **given)
    if name_of(route) in SIGNED:
        assert answer.json()["code"] in ("HOOK_REFUSED", "RATE_LIMITED")
    elif expected is None:
        assert answer.status_code not in (401, 403) and answer.status_code < 500
    else:
        assert answer.status_code == expected
        assert answer.headers["content-type"] == "application/problem+json"
        assert ("www-authenticate" in answer.headers) == (expected == 401)


FOREIGN = [each for each in ROUTES if any("{" + name in each.values[0].path for name in OWNED)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "route", [each for each in FOREIGN if not each.values[0].is_admin and name_of(each.values[0]) not in SIGNED]
)  # type: ignore[union-attr]
def test_what_belongs_to_another_owner_is_answered_as_missing(site: Site, route: Route) -> None:
    missing = {name: re.sub(r"[0-9A-Za-z](?=.{3})", "0", value) for name, value in site.ids.items()} | {"what": "job"}
    answers = [site.request(route, site.keys["other owner"], ids) for ids in (site.ids, missing)]
    shown = [_without_ids(answer, ids) for answer, ids in zip(answers, (site.ids, missing), strict=True)]
    assert shown[0] == shown[1]
    assert answers[0].status_code in (403, 404)


def _without_ids(answer: httpx.Response, ids: dict[str, str]) -> tuple[int, str, list[tuple[str, str]]]:
    text = answer.text
    for name, value in ids.items():
        text = text.replace(value, "ID") if name != "what" else text
    return answer.status_code, text, sorted(answer.headers.items())
