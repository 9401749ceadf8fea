"""The pages of operators at HTTP level, on both stores: what they show, what each form does, what an owner may not."""

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from postgres_server import PostgresServer, postgres_server
from seed_operate import (
    POLICIES,
    TRUNCATED,
    Worker,
    enqueue,
    make_old,
    make_shop,
    seed_duties,
    seed_failures,
    seed_notifications,
    seed_queues,
    seed_schedules,
    seed_workers,
)
from site_server import Site, hidden_fields, serve

from mulligan import App, FinalError, Rule
from mulligan.records.job import JobFilter
from mulligan.records.key import CreatedKey, Scope
from mulligan.web.pages import PAGES

ADMIN_PAGES = (
    *("/workers", "/queues", "/duties", "/schedules", "/policies", "/policies/kinds/convert", "/policies/reclassify"),
    *("/alerts", "/alerts/jobs.stuck", "/doctor"),
)
OWNER_PAGES = (
    *("/notifications", "/notifications/new", "/notifications/deliveries", "/notifications/hooks/new"),
    *("/keys", "/keys/new", "/audit"),
)


@pytest.fixture(scope="module")
def database_server() -> Iterator[PostgresServer]:
    with postgres_server(fsync="off", full_page_writes="off") as found:
        yield found


def open_url(request: pytest.FixtureRequest, name: str) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path_factory').mktemp(name)}/jobs.db"
    server: PostgresServer = request.getfixturevalue("database_server")
    return server.fresh_database(name)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A shop in operation. Each test makes what it changes."""
    url = open_url(request, "operate")
    seed_failures(url)
    file: Path = request.getfixturevalue("tmp_path_factory").mktemp("policies") / "policies.yaml"
    file.write_text(POLICIES)
    app = make_shop(url, policies=file, rules=(TRUNCATED,))
    seed_workers(app)
    seed_queues(app)
    seed_schedules(app)
    seed_notifications(app)
    with serve(app) as found:
        yield found
    app.close()


# Where no statement is new.
ONE_STORE = pytest.mark.parametrize("site", ["sqlite"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def client(site: Site) -> httpx.Client:
    return site.client()


@pytest.fixture(scope="module")
def acme(site: Site) -> CreatedKey:
    """Everything that an owner's key can allow."""
    return site.key("acme", *(scope for scope in Scope if scope is not Scope.OPERATE))


def words_of(markup: str) -> str:
    """As they are read: some tags are within a line."""
    within = re.sub(r"</?(?:a|b|code|strong|time)\b[^>]*>|<span class=\"is-[^>]*>|(?<=\w)</span>(?=\.)", "", markup)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", within))).strip()


def text_of(page: httpx.Response) -> str:
    """The words of its content."""
    assert page.status_code == 200, page.text
    return words_of(page.text.partition('id="content"')[2].partition(">")[2].partition("</main>")[0])


def answer_of(page: httpx.Response) -> str:
    found = re.search(r'id="answer"[^>]*>(.*?)</div>', page.text, re.S)
    assert found, page.text
    return words_of(found[1])


def row_of(page: httpx.Response, row_id: str) -> str:
    found = re.search(rf'<(tr|li)[^>]*id="{re.escape(row_id)}".*?</\1>', page.text, re.S)
    assert found, row_id
    return words_of(found[0])


# Every page


@ONE_STORE
@pytest.mark.parametrize("path", [*ADMIN_PAGES, *OWNER_PAGES])
def test_a_page_is_small_and_not_kept_by_browsers(client: httpx.Client, path: str) -> None:
    page = client.get(path)
    assert page.status_code == 200 and len(page.content) < 150_000
    assert page.headers["cache-control"] == "no-store"
    assert "style=" not in page.text and "<script>" not in page.text and "onclick" not in page.text


@ONE_STORE
@pytest.mark.parametrize("path", ADMIN_PAGES)
def test_an_owner_gets_a_clear_refusal_of_what_concerns_all(site: Site, acme: CreatedKey, path: str) -> None:
    page = site.client(acme).get(path)
    assert page.status_code == 403
    assert "Only an administrator's key allows this." in html.unescape(page.text)
    assert "You are signed in with a key of acme" in page.text
    assert f'href="{path}"' not in page.text, "the menu does not offer it"


@ONE_STORE
@pytest.mark.parametrize("path", OWNER_PAGES)
def test_an_owner_has_pages_of_its_own(site: Site, acme: CreatedKey, path: str) -> None:
    assert site.client(acme).get(path).status_code == 200


@ONE_STORE
@pytest.mark.parametrize("path", ["/notifications", "/keys", "/audit"])
def test_a_key_without_the_scope_learns_which_one_it_lacks(site: Site, path: str) -> None:
    client = site.client(site.key("acme", Scope.JOBS_READ))
    page = client.get(path)
    assert page.status_code == 403 and "manage</code> can do this" in page.text
    assert f'href="{path}"' not in client.get("/help").text


@ONE_STORE
def test_every_action_of_operators_needs_the_scope(site: Site) -> None:
    """An administrator's key that may only read sees no buttons, and its forms are refused."""
    client = site.client(site.key(None, Scope.JOBS_READ))
    for path in ("/workers", "/queues", "/duties", "/schedules", "/policies"):
        content = client.get(path).text.partition('id="content"')[2]
        assert 'method="post"' not in content, path
    token = hidden_fields(client.get("/help").text)["csrf"]
    actions = [page.path for page in PAGES if page.is_change and page.scope is Scope.OPERATE]
    for path in actions:
        answer = client.post(re.sub(r"{\w+(:\w+)?}", "x", path), data={"csrf": token})
        assert answer.status_code == 403 and "scope operate" in answer.text, path
    assert len(actions) >= 10


# Workers


def test_workers_are_shown_with_their_slots(client: httpx.Client, site: Site) -> None:
    Worker(site.app, "eu-1", 16)
    page = client.get("/workers")
    assert "2 jobs are stuck" in text_of(page) and "1 worker is silent" in text_of(page)
    silent, stuck = row_of(page, "worker-eu-2/4711/1"), row_of(page, "worker-eu-3/4711/1")
    assert "Silent since" in silent and "its 7 jobs are taken back when the leases expire" in silent
    assert "2 stuck" in stuck and "11 of 16" in stuck and "1.8.2" in stuck
    assert page.text.count('<i class="s">') == 2
    assert "convert" in row_of(page, "worker-eu-1/4711/1")


def test_stuck_jobs_are_taken_back(client: httpx.Client, site: Site) -> None:
    worker = Worker(site.app, "slow", 4)
    enqueue(site.app, "charge", 1)
    (job,) = worker.run("charge", number=1)
    make_old(site.app, [job], timedelta(hours=2))
    stuck = site.app.stuck(limit=50)
    assert job in [each.id for each in stuck]
    answer = site.post(client, "/workers", "/workers/process-stuck", reason="the disk of slow is full")
    assert answer_of(answer).startswith(f"{len(stuck)} jobs were taken back and settled as TIMEOUT.")
    assert site.app.stuck() == []
    (event,) = [event for event in site.app.events(job) if event.type == "job.retried"]
    assert event.actor and event.actor.startswith("on-call")
    assert "the disk of slow is full" in str(event.data)
    again = site.post(client, "/workers", "/workers/process-stuck")
    assert answer_of(again) == "No job was stuck any more."


def test_jobs_that_no_worker_takes_are_named(client: httpx.Client, site: Site) -> None:
    task = site.app.task("only_here", queue="attic")(print)
    job = task.enqueue()
    site.app.pause("1h", queue="attic")
    Worker(site.app, "eu-1", 16)
    assert "No worker takes only_here in queue attic. 1 job is ready" in text_of(client.get("/workers"))
    assert "no worker takes only_here" not in row_of(client.get("/queues"), "queue-attic"), "the pause comes first"
    site.app.resume(queue="attic")
    assert "no worker takes only_here" in row_of(client.get("/queues"), "queue-attic")
    site.app.cancel(job.id)


# Queues


def test_queues_are_shown_with_what_waits(client: httpx.Client, site: Site) -> None:
    Worker(site.app, "eu-1", 16)
    page = client.get("/queues")
    assert "Queue mail is paused" in text_of(page)
    mail, media = row_of(page, "queue-mail"), row_of(page, "queue-media")
    assert "107" in mail and "paused" in mail and "“the provider asks for quiet”" in mail and "by on-call" in mail
    assert "218" in media and "4 min ago" in media
    assert "it is resumed" in row_of(page, "pause-intake-import_feed")
    assert "8 of 10" in row_of(page, "limit-owner-acme")
    assert "431 of 500" in row_of(page, "budget-acme") and "they fail" in row_of(page, "budget-globex")
    assert "Every other owner: 100 retries a day." in text_of(page)


def test_the_budget_of_any_owner_can_be_looked_up(client: httpx.Client) -> None:
    page = client.get("/queues", params={"owner": "initech"})
    assert "0 of 100" in row_of(page, "budget-initech") and "0 of 5" in row_of(page, "limit-owner-initech")
    assert 'id="budget-acme"' in page.text


@pytest.mark.parametrize(
    ("what", "name"),
    [("queue", "media"), ("kind", "render"), ("duty", "retry"), ("schedule", "sync_stock"), ("intake", "*")],
)
def test_anything_can_be_paused_and_resumed(client: httpx.Client, site: Site, what: str, name: str) -> None:
    answer = site.post(
        client, "/queues", "/queues/pause", what=what, name=name, duration="90m", reason="disk & <b>tape</b>"
    )
    assert "is paused for 1 h 30 min." in answer_of(answer)
    (made,) = [pause for pause in site.app.pauses() if (pause.what, pause.name) == (what, name)]
    assert made.reason == "disk & <b>tape</b>" and made.actor and "on-call" in made.actor
    assert "disk & <b>tape</b>" in row_of(answer, f"pause-{what}-{name}")
    resumed = site.post(client, "/queues", "/queues/resume", what=what, name=name)
    assert "is resumed. It was paused for" in answer_of(resumed)
    assert not [pause for pause in site.app.pauses() if (pause.what, pause.name) == (what, name)]
    assert "was not paused" in answer_of(site.post(client, "/queues", "/queues/resume", what=what, name=name))


@ONE_STORE
@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"what": "queue", "name": "meda"}, "did you mean 'media'?"),
        ({"what": "queue", "name": "media", "duration": "soon"}, "soon"),
        ({"what": "service", "name": "nothing"}, "nothing"),
    ],
)
def test_a_pause_that_is_not_possible_says_what_is(
    client: httpx.Client, site: Site, fields: dict[str, str], answer: str
) -> None:
    before = site.app.pauses()
    refused = site.post(client, "/queues", "/queues/pause", **fields)
    assert answer in answer_of(refused) and 'class="answer is-failed"' in refused.text
    assert site.app.pauses() == before
    assert client.post("/queues/pause", data={"what": "planet"}).status_code == 403
    odd = site.post(client, "/queues", "/queues/pause", what="planet", name="earth")
    assert odd.status_code == 400 and "queue" in odd.text


def test_a_form_that_is_sent_twice_is_carried_out_once(client: httpx.Client, site: Site) -> None:
    fields = hidden_fields(client.get("/queues").text)
    form = {**fields, "what": "kind", "name": "report", "duration": "1h"}
    client.post("/queues/pause", data=form)
    (first,) = [pause for pause in site.app.pauses() if pause.name == "report"]
    client.post("/queues/pause", data=form)
    assert [pause for pause in site.app.pauses() if pause.name == "report"] == [first]
    site.app.resume(kind="report")


# Duties and schedules


def test_duties_are_run_paused_and_resumed(client: httpx.Client, site: Site) -> None:
    Worker(site.app, "eu-1", 16)
    seed_duties(site.app)
    page = client.get("/duties")
    assert "Duty prune is paused." in text_of(page)
    assert "until" in row_of(page, "duty-prune") and "by ann" in row_of(page, "duty-prune")
    done = site.post(client, "/duties", "/duties/expire/run")
    assert answer_of(done) == "Duty expire ran here: nothing to do."
    assert "nothing to do, manually by on-call" in row_of(done, "duty-expire")
    paused = site.post(client, "/duties", "/duties/expire/pause", duration="5m", reason="a look at it")
    assert "Duty expire is paused for 5 min." in answer_of(paused)
    assert "“a look at it”" in row_of(paused, "duty-expire")
    assert "Duty expire is resumed." in answer_of(site.post(client, "/duties", "/duties/expire/resume"))
    assert "no duty is named 'nothing'" in answer_of(site.post(client, "/duties", "/duties/nothing/run"))


def test_schedules_are_run_paused_resumed_and_removed(client: httpx.Client, site: Site) -> None:
    page = client.get("/schedules")
    nightly, sync = row_of(page, "schedule-nightly-report"), row_of(page, "schedule-sync_stock")
    assert (
        "at 02:30 from Monday to Friday" in nightly and "Europe/Berlin" in nightly and "“month-end closing”" in nightly
    )
    assert "every 5 minutes" in sync and "missed ticks are skipped" in sync and "queued" in sync
    ran = site.post(client, "/schedules", "/schedules/sync_stock/run")
    (job,) = re.findall(r"enqueued as job ([\w-]+)\.", answer_of(ran))
    assert site.app.job(job).kind == "sync_stock"
    paused = site.post(client, "/schedules", "/schedules/sync_stock/pause", duration="1h")
    assert "Schedule sync_stock is paused for 1 h." in answer_of(paused)
    assert "is resumed" in answer_of(site.post(client, "/schedules", "/schedules/sync_stock/resume"))
    refused = site.post(client, "/schedules", "/schedules/sync_stock/remove")
    assert "is-failed" in refused.text and "sync_stock" in answer_of(refused)
    assert "no code defines it any more" in row_of(refused, "schedule-old-export")
    gone = site.post(client, "/schedules", "/schedules/old-export/remove", reason="replaced")
    assert answer_of(gone) == "Schedule old-export was removed. Its jobs stay."
    assert "schedule-old-export" not in gone.text


# Policies


@ONE_STORE
def test_policies_are_shown_with_the_source_of_each_value(client: httpx.Client) -> None:
    page = client.get("/policies")
    assert "2 changed by the policies file" in text_of(page)
    assert "the file: max_attempts and timeout" in row_of(page, "policy-charge")
    assert "the code" in row_of(page, "policy-render")
    assert "Retried after 1 min, 10 min and 2 h" in row_of(page, "policy-send_mail")
    assert all(f'id="pack-{name}"' in page.text for name in ("http", "database", "smtp"))


@ONE_STORE
def test_one_policy_shows_its_schedule_values_and_rules(client: httpx.Client) -> None:
    text = text_of(client.get("/policies/kinds/charge"))
    assert "charge is tried at most 3 times. Retried after 15 s and 30 s; in all about 45 s." in text
    assert "attempts at most 3 file, kinds.charge" in text and "fails after 3 crashes in a row code" in text
    assert "CARD_DECLINED" in text and "fails for good" in text
    of_acme = text_of(client.get("/policies/kinds/convert", params={"owner": "acme"}))
    assert "convert of owner acme is tried at most 8 times." in of_acme and "file, owners.acme" in of_acme
    unknown = client.get("/policies/kinds/convrt")
    assert unknown.status_code == 404 and "convert" in unknown.text


def test_reclassify_shows_what_would_change_and_then_does_it(client: httpx.Client, site: Site) -> None:
    preview = client.get("/policies/reclassify", params={"kind": "import_feed", "owner": "globex"})
    assert "2 of 2 failed jobs would be retried" in text_of(preview) and "FEED_TRUNCATED" in text_of(preview)
    assert site.app.counts(JobFilter(state="failed", owner="globex")).total == 2
    form = {"kind": "import_feed", "owner": "globex", "reason": "the rule was wrong"}
    done = client.post("/policies/reclassify/retry", data={**hidden_fields(preview.text), **form})
    assert answer_of(done) == "2 jobs are retried."
    assert site.app.counts(JobFilter(state="failed", owner="globex")).total == 0
    assert site.app.counts(JobFilter(state="failed", owner="acme")).total == 4
    none = client.get("/policies/reclassify", params={"owner": "globex"})
    assert "No failed job matches." in text_of(none)


def test_reclassify_judges_and_retries_no_more_than_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(*rules: Rule) -> App:
        app = App(f"sqlite:///{tmp_path}/jobs.db", rules=rules)

        @app.task
        def fail() -> None:
            raise ValueError("later")

        return app

    with make(Rule("NO", "final", message="later")) as before:
        before.enqueue_many([before.tasks["fail"].bind() for _ in range(5)])
        before.run_until_idle()
    monkeypatch.setattr("mulligan.web.pages.policies.MOST_JUDGED", 4)
    with make() as app, serve(app) as site:
        client = site.client()
        path = "/policies/reclassify?limit=3"
        page = client.get(path)
        assert "The newest 3 jobs were judged; there are more." in text_of(page)
        (more,) = re.findall(r'href="(/policies/reclassify\?[^"]+)"', page.text)
        assert "4 of 4 failed jobs" in text_of(client.get(html.unescape(more)))
        assert re.search(r'name="limit" value="3"', page.text)
        done = site.post(client, path, "/policies/reclassify/retry", limit="3", reason="the rule is gone")
        assert answer_of(done) == "3 jobs are retried."
        assert client.get("/policies/reclassify?limit=1001").status_code == 400


def test_reclassify_shows_the_most_frequent_changes_of_very_many(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def fail(number: int) -> None:
        raise FinalError("no", code=f"CODE_{number:02}")

    app.enqueue_many([fail.bind(number) for number in (3, *range(53))])
    app.run_until_idle()
    with serve(app) as site:
        page = site.client().get("/policies/reclassify").text
    app.close()
    codes = re.findall(r'data-label="Code then">(CODE_\d+)', page)
    assert len(codes) == 50 and codes[0] == "CODE_03", "the most frequent one is first"
    assert "3 changes of fewer jobs are left out." in page


# Alerts


def test_alerts_are_shown_set_silenced_and_taken_back(client: httpx.Client, site: Site) -> None:
    site.app.set_alert("duties.paused", level="warning", after="0s")
    site.app.run_duty("alert")
    page = client.get("/alerts")
    assert "duties.paused" in text_of(page) and "Paused:" in row_of(page, "alert-duties.paused-")
    own = "/alerts/duties.paused"
    assert "duties.paused fires at a warning, at once." in text_of(client.get(own))
    terms = {"is_on": "yes", "level": "problem", "threshold": "90m", "after": "2m", "resolve_after": "10m"}
    done = site.post(client, own, f"{own}/set", **terms, reason="fewer calls at night")
    assert answer_of(done) == "The rule of duties.paused is set, in all workers."
    assert "fires at a problem that lasts for 2 min" in text_of(done) and "fewer calls at night" in text_of(done)
    rule = next(rule for rule in site.app.alerts().rules if rule.check == "duties.paused")
    assert (rule.threshold, rule.after) == (5_400, timedelta(minutes=2)) and "on-call" in (rule.edited_by or "")
    silent = site.post(client, own, f"{own}/silence", duration="2h", reason="it is planned")
    assert "Alert duties.paused is silenced for" in answer_of(silent)
    assert "“it is planned”" in row_of(silent, "rule-duties.paused")
    assert "is not silenced any more" in answer_of(site.post(client, own, f"{own}/unsilence"))
    off = site.post(client, own, f"{own}/set", is_on="no")
    assert "duties.paused is off." in text_of(off)
    default = site.post(client, own, f"{own}/default")
    assert answer_of(default) == "The rule of duties.paused is as in the code again."
    assert "Set by default" in text_of(default)


@ONE_STORE
def test_an_alert_that_cannot_be_says_what_can(client: httpx.Client, site: Site) -> None:
    refused = site.post(client, "/alerts/jobs.depth", "/alerts/jobs.depth/set", threshold="many")
    assert "is-failed" in refused.text and "jobs" in answer_of(refused)
    assert client.get("/alerts/jobs.dept").status_code == 404
    unknown = site.post(client, "/alerts", "/alerts/jobs.dept/silence")
    assert "jobs.depth" in answer_of(unknown)


# Notifications


def new_subscription(site: Site, client: httpx.Client, name: str, **fields: Any) -> httpx.Response:
    given = {"channel": "webhook", "to": "https://hooks.example/x", "types": ["job.failed"], **fields}
    return site.post(client, "/notifications/new", "/notifications/subscribe", name=name, **given)


def secret_in(page: httpx.Response) -> str:
    assert page.status_code == 200, page.text
    (found,) = re.findall(r'id="token"[^>]*>([^<]+)<', page.text)
    return html.unescape(found)


def check_shown_once(page: httpx.Response, secret: str, client: httpx.Client, *elsewhere: str) -> None:
    """It is in the answer to the form, and nowhere else: no address, no cookie, no later page, no cache."""
    assert page.headers["cache-control"] == "no-store"
    assert secret not in str(page.url) and not page.history
    assert not any(secret in (cookie.value or "") for cookie in client.cookies.jar)
    assert not any(secret in client.get(path).text for path in (*elsewhere, "/audit"))
    # Nothing on the page leads to another one and back: it would come without the secret.
    assert 'action="/choose"' not in page.text
    backs = set(re.findall(r'name="back" value="([^"]*)"', page.text))
    assert all(client.get(html.unescape(back)).status_code == 200 for back in backs)


def test_a_webhook_is_subscribed_and_its_secret_shown_once(client: httpx.Client, site: Site) -> None:
    page = new_subscription(site, client, "ledger of all", types=["job.failed", "batch.settled"], kind="convert")
    secret = secret_in(page)
    assert secret.startswith("whsec_")
    check_shown_once(page, secret, client, "/notifications")
    (made,) = [each for each in site.app.subscriptions() if each.name == "ledger of all"]
    assert made.choice.types == ("job.failed", "batch.settled") and made.choice.kind == "convert"
    assert made.created_by and "on-call" in made.created_by
    own = f"/notifications/subscriptions/{made.id}"
    assert "ledger of all sends job.failed and batch.settled to a webhook." in text_of(client.get(own))
    rotated = site.post(client, own, f"{own}/rotate")
    again = secret_in(rotated)
    assert again != secret and "the previous secret signs as well" in rotated.text
    check_shown_once(rotated, again, client, own)


def test_a_mail_is_subscribed(client: httpx.Client, site: Site) -> None:
    page = new_subscription(site, client, "by mail", channel="email", to="ops@example.org", digest="10m")
    assert answer_of(page) == "Subscription by mail is there. Test it to see that the mail arrives."
    (made,) = [each for each in site.app.subscriptions() if each.name == "by mail"]
    assert made.digest == timedelta(minutes=10)
    twin = new_subscription(site, client, "by mail", channel="email", to="ops@example.org")
    assert "by mail" in answer_of(twin) and "is-failed" in twin.text


@ONE_STORE
@pytest.mark.parametrize(
    "fields", [{"to": "ftp://x"}, {"to": "not an address"}, {"types": ["job.exploded"]}, {"types": []}]
)
def test_a_subscription_that_cannot_work_is_refused(client: httpx.Client, site: Site, fields: dict[str, Any]) -> None:
    before = len(site.app.subscriptions(limit=100))
    page = new_subscription(site, client, "odd", **fields)
    assert page.url.path == "/notifications/new" and "is-failed" in page.text and answer_of(page)
    assert len(site.app.subscriptions(limit=100)) == before


def test_a_subscription_is_tested_disabled_enabled_and_removed(client: httpx.Client, site: Site) -> None:
    made = site.app.subscribe("short", types=["job.failed"], channel="webhook", to="https://x.example/y").subscription
    own = f"/notifications/subscriptions/{made.id}"
    tested = site.post(client, own, f"{own}/test")
    assert tested.url.path.startswith("/notifications/deliveries/")
    assert "A sample is on its way." in answer_of(tested) and "subscription.test about short" in text_of(tested)
    off = site.post(client, own, f"{own}/disable", reason="it moves")
    assert "is disabled since" in text_of(off) and "It moves." in text_of(off)
    assert "disabled" in row_of(client.get("/notifications"), f"subscription-{made.id}")
    on = site.post(client, own, f"{own}/enable")
    assert answer_of(on) == "Subscription short is enabled, from now on."
    gone = site.post(client, own, f"{own}/remove")
    assert "Subscription short was removed." in answer_of(gone) and client.get(own).status_code == 404


def test_deliveries_are_listed_by_state_and_sent_again(client: httpx.Client, site: Site) -> None:
    failed = client.get("/notifications/deliveries", params={"state": "failed"})
    assert "1 delivery that failed." in text_of(failed)
    assert "the receiver answered 503 Service Unavailable" in text_of(failed)
    (found,) = site.app.deliveries(state="failed")
    own = f"/notifications/deliveries/{found.id}"
    page = client.get(own)
    assert (
        "was not delivered" in text_of(page) and "upstream is down" in text_of(page) and "8 attempts." in text_of(page)
    )
    again = site.post(client, own, f"{own}/redeliver")
    assert answer_of(again) == "It is sent again, with the same id and the same body."
    assert site.app.delivery(found.id).state == "pending"
    (digested,) = site.app.deliveries(state="suppressed")
    kept = site.post(client, own, f"/notifications/deliveries/{digested.id}/redeliver")
    assert answer_of(kept) == "It is part of a digest, and is not sent alone."
    assert client.get("/notifications/deliveries/unknown").status_code == 404
    of_one = client.get("/notifications/deliveries", params={"subscription": found.subscription})
    assert 'aria-label="All subscriptions"' in of_one.text


def test_deliveries_go_on_page_by_page(client: httpx.Client, site: Site) -> None:
    made = site.app.subscribe("much", types=["job.failed"], channel="webhook", to="https://x.example/y").subscription
    ids = {site.app.test_subscription(made.id).id for _ in range(52)}
    first = client.get("/notifications/deliveries", params={"subscription": made.id})
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first.text)
    second = client.get(html.unescape(older))
    shown = re.findall(r'id="delivery-([^"]+)"', first.text + second.text)
    assert len(shown) == 52 and set(shown) == ids and 'rel="next"' not in second.text
    assert "Older deliveries." in text_of(second)
    site.app.unsubscribe(made.id)


def test_an_incoming_hook_is_created_and_removed(client: httpx.Client, site: Site) -> None:
    group = site.app.jobs(JobFilter(state="failed"), limit=1).jobs[0].group
    page = site.post(client, "/notifications/hooks/new", "/notifications/hooks/create", name="repaired", group=group)
    secret = secret_in(page)
    (made,) = [hook for hook in site.app.incoming_hooks() if hook.name == "repaired"]
    assert f"/api/v1/hooks/{made.id}" in page.text
    check_shown_once(page, secret, client, "/notifications")
    assert f"group {group}" in row_of(client.get("/notifications"), f"hook-{made.id}")
    gone = site.post(client, "/notifications", f"/notifications/hooks/{made.id}/remove")
    assert answer_of(gone) == "Hook repaired was removed. Calls of it are refused."
    neither = site.post(client, "/notifications/hooks/new", "/notifications/hooks/create", name="odd")
    assert "either group= or batch=" in answer_of(neither)


def test_an_owner_sees_and_makes_its_own_notifications_only(site: Site, acme: CreatedKey) -> None:
    client = site.client(acme)
    text = text_of(client.get("/notifications"))
    assert "orders of acme" in text and "failures to on-call" not in text and "ledger" not in text
    assert "gateway is repaired" in text
    foreign = next(each for each in site.app.subscriptions() if each.name == "failures to on-call")
    assert client.get(f"/notifications/subscriptions/{foreign.id}").status_code == 404
    refused = site.post(client, "/notifications", f"/notifications/subscriptions/{foreign.id}/remove")
    assert "is-failed" in refused.text and site.app.subscription(foreign.id)
    form = client.get("/notifications/new").text
    assert 'value="email"' not in form and 'name="owner"' not in form
    secret_in(new_subscription(site, client, "own", owner="globex"))
    (made,) = [each for each in site.app.subscriptions(limit=100) if each.name == "own"]
    assert made.owner == "acme"
    mail = new_subscription(site, client, "own mail", channel="email", to="victim@example.org")
    assert "only an administrator subscribes an address of mail" in answer_of(mail)


# Keys, audit, doctor


def new_key(site: Site, client: httpx.Client, name: str, **fields: Any) -> httpx.Response:
    return site.post(client, "/keys/new", "/keys/create", name=name, **fields)


def key_named(site: Site, name: str) -> Any:
    (found,) = [key for key in site.app.keys(limit=100) if key.name == name]
    return found


def test_a_key_is_created_and_its_token_shown_once(client: httpx.Client, site: Site) -> None:
    fields = {"whose": "owner", "owner": "globex", "scopes": ["jobs:read", "jobs:retry"], "expires_in": "30d"}
    page = new_key(site, client, "ci of globex", **fields)
    token = secret_in(page)
    check_shown_once(page, token, client, "/keys")
    key = site.app.find_key(token)
    assert (key.owner, key.name, key.scopes) == ("globex", "ci of globex", (Scope.JOBS_READ, Scope.JOBS_RETRY))
    assert key.expires_at is not None and key.created_by and "on-call" in key.created_by
    row = row_of(client.get("/keys"), f"key-{key.id}")
    assert "globex" in row and "jobs:read, jobs:retry" in row and "expires in 29 d" in row and "never" in row
    (entry,) = [each for each in site.app.audit(limit=10) if each.target == key.id]
    assert (entry.action, entry.status) == ("POST /keys/create", 303)


def test_the_same_form_does_not_make_a_second_key(client: httpx.Client, site: Site) -> None:
    form = {**hidden_fields(client.get("/keys/new").text), "name": "twin", "owner": "acme", "scopes": ["jobs:read"]}
    secret_in(client.post("/keys/create", data=form))
    again = client.post("/keys/create", data=form)
    assert "is-failed" in again.text and 'id="token"' not in again.text
    assert key_named(site, "twin")


def test_an_administrator_is_made_only_if_that_is_chosen(client: httpx.Client, site: Site) -> None:
    refused = new_key(site, client, "careless", owner="")
    assert "owner" in answer_of(refused) and "administrator" in answer_of(refused)
    secret_in(new_key(site, client, "second admin", whose="administrator", owner="ignored"))
    assert key_named(site, "second admin").owner is None
    beyond = new_key(site, client, "beyond", owner="acme", scopes=["operate"])
    assert "only an administrator's key can have operate" in answer_of(beyond)


def test_a_key_gets_no_scope_and_no_owner_that_its_creator_lacks(site: Site) -> None:
    client = site.client(site.key("acme", Scope.JOBS_READ, Scope.KEYS_MANAGE))
    assert 'value="jobs:retry"' not in client.get("/keys/new").text
    refused = new_key(site, client, "more", scopes=["jobs:retry"])
    assert "does not have jobs:retry itself" in answer_of(refused)
    secret_in(new_key(site, client, "theirs", whose="administrator", owner="globex", scopes=["jobs:read"]))
    assert key_named(site, "theirs").owner == "acme"


def test_a_key_is_revoked(client: httpx.Client, site: Site) -> None:
    key = site.key("acme").key
    gone = site.post(client, "/keys", f"/keys/{key.id}/revoke")
    assert answer_of(gone) == f"Key acme ({key.id}) is revoked. Within a second, every server refuses it."
    assert "revoked" in row_of(gone, f"key-{key.id}") and "Revoke…" not in row_of(gone, f"key-{key.id}")


def test_a_one_time_link_signs_in_with_its_key(client: httpx.Client, site: Site, acme: CreatedKey) -> None:
    page = site.post(client, "/keys", f"/keys/{acme.key.id}/link")
    address = secret_in(page)
    token = address.partition("link=")[2]
    assert address == f"{site.base}/sign-in?link={token}"
    check_shown_once(page, token, client, "/keys")
    visitor = site.anonymous()
    assert visitor.post("/sign-in", data={"link": token, "next": "/keys"}).url.path == "/keys"
    assert "Keys of acme" in visitor.get("/keys").text
    assert site.anonymous().post("/sign-in", data={"link": token}).status_code == 403


def test_a_link_is_no_way_to_more_scopes_or_to_another_owner(site: Site, acme: CreatedKey) -> None:
    weak = site.client(site.key("acme", Scope.KEYS_MANAGE, Scope.JOBS_READ))
    row = re.search(rf'id="key-{acme.key.id}".*?</tr>', weak.get("/keys").text, re.S)
    assert row and "Sign-in link" not in row[0]
    refused = site.post(weak, "/keys", f"/keys/{acme.key.id}/link")
    assert "does not have" in answer_of(refused) and 'id="token"' not in refused.text
    foreign = site.post(weak, "/keys", f"/keys/{site.admin.key.id}/link")
    assert "is-failed" in foreign.text and 'id="token"' not in foreign.text


def test_an_owner_sees_its_own_keys_and_changes(site: Site, acme: CreatedKey) -> None:
    client = site.client(acme)
    keys = text_of(client.get("/keys"))
    assert "Keys of acme" in keys and "administrator" not in keys and "globex" not in keys
    refused = site.post(client, "/keys", f"/keys/{site.admin.key.id}/revoke")
    assert "is-failed" in refused.text
    audit = text_of(client.get("/audit"))
    assert "Changes by keys of acme" in audit and "on-call (key" not in audit
    assert "POST /keys/{key_id}/revoke" in audit and "refused, 404" in audit


def test_the_audit_goes_on_page_by_page_and_can_be_of_one_owner(client: httpx.Client, site: Site) -> None:
    for number in range(55):
        site.app.revoke_key(site.app.create_key(owner="many", name=f"k{number}", actor="ann").key.id, owner="many")
    page = client.get("/audit", params={"owner": "many"})
    first = re.findall(r'id="audit-([^"]+)"', page.text)
    (older,) = re.findall(r'rel="next" href="([^"]+)"', page.text)
    second = client.get(html.unescape(older))
    rest = re.findall(r'id="audit-([^"]+)"', second.text)
    assert len(first) == len(rest) == 50 and not set(first) & set(rest)
    assert "Changes up to" in text_of(second) and "owner many" in text_of(second)


@ONE_STORE
def test_the_doctor_shows_findings_with_their_remedy(client: httpx.Client) -> None:
    page = client.get("/doctor")
    text = text_of(page)
    assert "problem" in text or "warning" in text
    assert "Remedy: " in text and "duties.paused" in text and 'href="/queues"' in page.text
    fine = page.text.partition('id="fine"')[2]
    assert "The store answers." in fine and not fine.lstrip().startswith("open"), "what is in order is folded"


# Nothing there yet


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    app = App(f"sqlite:///{tmp_path_factory.mktemp('empty')}/jobs.db")
    with serve(app) as found:
        yield found
    app.close()


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("/workers", ["No worker runs.", "mulligan worker MODULE:APP"]),
        ("/queues", ["There is no queue yet.", "Nothing is paused", "No limits", "No owner has a budget of its own"]),
        ("/duties", ["No worker runs the duties.", "no worker", "never"]),
        ("/schedules", ["There is no schedule.", "@app.cron"]),
        ("/alerts", ["No worker evaluates alerts yet"]),
        ("/policies", ["This app has no tasks.", "mulligan serve MODULE:APP"]),
        ("/policies/reclassify", ["No failed job matches.", "Nothing to judge"]),
        ("/notifications", ["There is no subscription yet.", "Nothing was sent yet", "No hook"]),
        ("/notifications/deliveries", ["There are no deliveries."]),
    ],
)
def test_an_empty_page_teaches(empty: Site, path: str, texts: list[str]) -> None:
    found = text_of(empty.client().get(path))
    assert [text for text in texts if text not in found] == []


def test_an_owner_without_anything_is_taught_too(empty: Site) -> None:
    client = empty.client(empty.key("new", Scope.KEYS_MANAGE, Scope.WEBHOOKS_MANAGE, Scope.JOBS_READ))
    assert "an email address" not in text_of(client.get("/notifications"))
    assert text_of(client.get("/audit")).startswith("new (key "), "it signed in"


def test_mistakes_of_the_policies_file_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("default: {max_atempts: 3}")
    app = make_shop(f"sqlite:///{tmp_path}/jobs.db", policies=file)
    with serve(app) as site:
        text = text_of(site.client().get("/policies"))
    app.close()
    assert "The policies file has 1 mistake." in text and "max_atempts is unknown" in text
