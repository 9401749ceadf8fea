"""Subscriptions over HTTP, and incoming hooks: signed, protected against replay, limited, recorded."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_client import Web
from standardwebhooks import Webhook

from mulligan import App, FinalError, RetryPolicy
from mulligan.console import hooks
from mulligan.errors import BadSubscriptionOption
from mulligan.records.key import Scope
from mulligan.records.rate import parse_rate
from mulligan.settings import Settings

HOOK = {"types": ["job.failed"], "channel": "webhook", "to": "https://example.org/hook"}


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with App(f"sqlite:///{tmp_path}/web.db") as app:

        @app.task("fails", retry=RetryPolicy(1))
        def fails() -> None:
            raise FinalError("no")

        app.enqueue_many([fails.options(owner="acme").bind() for _ in range(3)])
        app.run_until_idle(timeout="30s")
        yield Web(app)


def send(web: Web, method: str, path: str, key: str | None = None, **given: Any) -> httpx.Response:
    headers = given.pop("headers", {}) | ({} if key is None else {"Authorization": f"Bearer {key}"})
    return web.run(lambda client: client.request(method, f"/api/v1{path}", headers=headers, **given))


# Subscriptions


def test_an_owner_manages_its_own_webhooks_and_never_sees_a_secret_again(web: Web) -> None:
    key, other = web.key("acme", Scope.WEBHOOKS_MANAGE), web.key("other", Scope.WEBHOOKS_MANAGE)
    created = send(web, "POST", "/subscriptions", key, json={"name": "mine", **HOOK})
    assert created.status_code == 201
    found, secret = created.json()["subscription"], created.json()["secret"]
    assert found["owner"] == "acme" and secret.startswith("whsec_")
    assert secret not in send(web, "GET", "/subscriptions", key).text
    assert send(web, "GET", "/subscriptions", other).json()["subscriptions"] == []
    assert send(web, "GET", f"/subscriptions/{found['id']}", other).status_code == 404
    again = send(web, "POST", "/subscriptions", key, json={"name": "mine", **HOOK})
    assert (again.status_code, again.json()["code"]) == (409, "SUBSCRIPTION_EXISTS")
    rotated = send(web, "POST", f"/subscriptions/{found['id']}/rotate", key, json={})
    assert rotated.json()["secret"] not in (None, secret)
    sample = send(web, "POST", f"/subscriptions/{found['id']}/test", key, json={}).json()
    assert [each["id"] for each in send(web, "GET", "/deliveries", key).json()["deliveries"]] == [sample["id"]]
    assert send(web, "GET", "/deliveries", other).json()["deliveries"] == []
    assert send(web, "DELETE", f"/subscriptions/{found['id']}", key).status_code == 200


def test_an_owner_cannot_send_mails_or_act_for_another(web: Web) -> None:
    key = web.key("acme", Scope.WEBHOOKS_MANAGE)
    mail = {"name": "x", "types": ["job.failed"], "channel": "email", "to": "stranger@example.org"}
    assert send(web, "POST", "/subscriptions", key, json=mail).json()["code"] == "SUBSCRIPTION_NOT_ALLOWED"
    assert send(web, "POST", "/subscriptions", key, json={"name": "x", **HOOK, "owner": "other"}).status_code == 403
    assert send(web, "POST", "/subscriptions", key, json={"name": "x", **HOOK, "owner": None}).status_code == 403
    assert send(web, "POST", "/subscriptions", web.key(), json=mail).status_code == 201


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.1/", "https://user:hunter2@example.org/", "https://example.org:22/", "x",
        "https://127.0.0.1/", "https://10.1.2.3/", "https://169.254.169.254/", "https://[::1]/", "https://[::ffff:10.0.0.1]/",
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_called_is_refused_with_its_place(web: Web, to: str) -> None:
    answer = send(web, "POST", "/subscriptions", web.key(), json={"name": "x", **HOOK, "to": to})
    assert (answer.status_code, answer.json()["path"]) == (400, "$.to")
    assert "hunter2" not in answer.text


def test_an_address_in_an_allowed_network_can_be_subscribed(tmp_path: Path) -> None:
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/x.db", webhook_allowed_networks=(ip_network("10.1.0.0/16"),)
    )
    with App(settings=settings) as app:
        assert app.subscribe("inside", **HOOK | {"to": "https://10.1.2.3/"}).subscription.to == "https://10.1.2.3/"
        with pytest.raises(BadSubscriptionOption, match="not public"):
            app.subscribe("elsewhere", **HOOK | {"to": "https://10.2.2.3/"})


# Incoming hooks


def make_hook(web: Web, **options: Any) -> tuple[str, str]:
    (job, *_) = web.app.jobs().jobs
    created = web.app.create_hook("partner", **({"group": job.group, "owner": "acme"} | options))
    return created.hook.id, created.secret


def signed(secret: str, body: str, *, message: str = "msg_1", at: datetime | None = None) -> dict[str, str]:
    """As a partner signs with a library of Standard Webhooks."""
    moment = at or datetime.now(UTC)
    return {
        "webhook-id": message,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign(message, moment, body),
    }


def call(web: Web, hook: str, headers: dict[str, str], body: str = "{}") -> httpx.Response:
    return send(web, "POST", f"/hooks/{hook}", headers=headers, content=body)


def test_a_signed_call_retries_the_failed_jobs_and_is_recorded(web: Web) -> None:
    hook, secret = make_hook(web)
    answer = call(web, hook, signed(secret, "{}"))
    assert answer.status_code == 200
    assert (answer.json()["matched"], answer.json()["canary"], answer.json()["owner"]) == (3, 5, "acme")
    (entry, *_) = web.app.audit(owner="acme")
    assert (entry.action, entry.target, entry.request_id) == ("POST /hooks/{hook_id}", hook, "msg_1")
    assert web.app.incoming_hooks()[0].called_at is not None


def test_the_same_call_again_starts_nothing(web: Web) -> None:
    hook, secret = make_hook(web)
    headers = signed(secret, "{}")
    answers = [call(web, hook, headers) for _ in range(3)]
    assert {answer.json()["id"] for answer in answers} == {answers[0].json()["id"]}
    assert len(web.app.redrives()) == 1


def test_a_call_that_does_not_fit_is_refused_alike(web: Web) -> None:
    hook, secret = make_hook(web)
    now, late = datetime.now(UTC), timedelta(minutes=6)
    refused = [
        call(web, hook, {}),
        call(web, hook, signed(secret, "{}"), body='{"other": 1}'),
        call(web, hook, signed(secret, "{}") | {"webhook-id": "msg_2"}),
        call(web, hook, signed(secret, "{}", at=now - late)),
        call(web, hook, signed(secret, "{}", at=now + late)),
        call(web, hook, signed("whsec_" + "A" * 44, "{}")),
        call(web, "unknown", signed(secret, "{}")),
    ]
    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(401, "HOOK_REFUSED")}
    assert len({answer.text for answer in refused}) == 1
    assert web.app.redrives() == []


def test_calls_that_do_not_fit_are_limited_by_address(web: Web) -> None:
    hook, _ = make_hook(web)
    strict = Web(web.app, failures="2/d")
    assert [call(strict, hook, {}).status_code for _ in range(4)] == [401, 401, 429, 429]


def test_calls_of_one_hook_are_limited(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "CALLS", parse_rate("2/d"))
    hook, secret = make_hook(web)
    answers = [call(web, hook, signed(secret, "{}", message=f"msg_{number}")) for number in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[2].headers["retry-after"]) > 0


def test_a_hook_retries_jobs_of_its_owner_only(web: Web) -> None:
    web.app.tasks["fails"].options(owner="other").enqueue()
    web.app.run_until_idle(timeout="30s")
    hook, secret = make_hook(web, owner="other")
    assert call(web, hook, signed(secret, "{}")).json()["matched"] == 1


def test_a_hook_for_an_unknown_group_is_refused_with_what_is_possible(web: Web) -> None:
    """So is one for a group in which the owner has no job: it could not retry any."""
    (job, *_) = web.app.jobs().jobs
    for key, group in ((web.key(), "mistyped"), (web.key("other", Scope.WEBHOOKS_MANAGE, Scope.JOBS_RETRY), job.group)):
        answer = send(web, "POST", "/hooks", key, json={"name": "x", "group": group})
        assert (answer.status_code, answer.json()["code"]) == (404, "GROUP_NOT_FOUND")
        assert "list them with" in answer.json()["message"]
    assert web.app.incoming_hooks() == []


def test_a_key_that_may_not_retry_cannot_make_a_hook(web: Web) -> None:
    answer = send(web, "POST", "/hooks", web.key("acme", Scope.WEBHOOKS_MANAGE), json={"name": "x", "group": "g"})
    assert (answer.status_code, answer.json()["code"]) == (403, "SUBSCRIPTION_NOT_ALLOWED")
    allowed = web.key("acme", Scope.WEBHOOKS_MANAGE, Scope.JOBS_RETRY)
    (job, *_) = web.app.jobs().jobs
    assert send(web, "POST", "/hooks", allowed, json={"name": "x", "group": job.group}).status_code == 201
