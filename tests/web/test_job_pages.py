"""The pages of jobs over HTTP, without scripts, on both stores: lists, moves for many, one job, what an owner sees."""

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any

import httpx
import pytest
from site_server import Site, hidden_fields, serve
from starlette.applications import Starlette
from starlette.routing import Mount
from world import World

from mulligan import Job, State
from mulligan.records.job import NewJob
from mulligan.records.key import Scope
from mulligan.store.messages import Claim
from mulligan.web.server import asgi

MISSING = "01900000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def site(world: World) -> Iterator[Site]:
    with serve(world.app) as found:
        yield found


@pytest.fixture(scope="module")
def admin(site: Site) -> httpx.Client:
    return site.client()


@pytest.fixture(scope="module")
def acme(site: Site) -> httpx.Client:
    return site.client(site.key("acme"))


def title(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    found = re.search(r"<h1>(.*?)</h1>", answer.text, re.DOTALL)
    assert found is not None
    return found[1]


def listed(answer: httpx.Response) -> list[str]:
    return re.findall(r'id="j-([^"]+)"', answer.text)


def forms(answer: httpx.Response) -> set[str]:
    """The moves that a page offers for its job."""
    return set(re.findall(r'action="/jobs/[^/"]+/([a-z-]+)"', answer.text))


def waiting(world: World, **options: Any) -> Job[Any]:
    return world.queued(delay="1h", **options)


# The list


def test_jobs_are_listed_by_state_and_filter_and_counted(world: World, admin: httpx.Client) -> None:
    failed = world.failed(owner="lists", why="gone")
    tagged = waiting(world, owner="lists", tags=["late ones"])
    cases = {
        "/jobs?owner=lists": ([tagged, failed], "2 jobs match."),
        "/jobs?owner=lists&state=failed": ([failed], "1 failed job matches."),
        "/jobs?owner=lists&state=waiting&state=queued": ([tagged], "1 job matches."),
        "/jobs?owner=lists&tag=late%20ones": ([tagged], "1 job matches."),
        "/jobs?owner=lists&code=NOT_PDF&since=1h": ([failed], "1 job matches."),
        f"/jobs?owner=lists&group={failed.group}": ([failed], "1 job matches."),
        "/jobs?owner=lists&since=2000-01-01&until=1h": ([], "No job matches."),
        "/jobs?owner=lists&kind=none": ([], "No job matches."),
    }
    for path, (jobs, sentence) in cases.items():
        shown = admin.get(path)
        assert (listed(shown), title(shown)) == ([job.id for job in jobs], sentence), path
    shown = admin.get("/jobs?owner=lists").text
    assert 'Failed <span class="count">1</span>' in shown and 'Waiting <span class="count">1</span>' in shown


def test_older_jobs_are_a_page_away_and_the_filter_stays(world: World, admin: httpx.Client) -> None:
    convert = world.task("convert")
    world.app.enqueue_many([convert.options(owner="many", delay="1h").bind(f"{n}") for n in range(70)])
    first = admin.get("/jobs?owner=many&kind=convert")
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first.text)
    second = admin.get(older.replace("&amp;", "&"))
    assert "owner=many" in older and "kind=convert" in older
    assert (len(listed(first)), len(listed(second))) == (50, 20)
    assert not set(listed(first)) & set(listed(second)) and 'rel="next"' not in second.text


def test_what_is_typed_becomes_a_part_of_the_address(world: World, site: Site, admin: httpx.Client) -> None:
    job = waiting(world, owner="typed")
    cases = {
        ("owner:typed kind:convert",): "/jobs?kind=convert&owner=typed",
        (job.id[-12:],): f"/jobs/{job.id}",
        (job.id,): f"/jobs/{job.id}",
    }
    for (text,), path in cases.items():
        answer = admin.get("/jobs", params={"q": text})
        assert str(answer.url).removeprefix(site.base) == path
    kept = admin.get("/jobs", params={"state": "waiting", "owner": "typed", "q": "tag:x"})
    assert str(kept.url).endswith("/jobs?state=waiting&owner=typed&tag=x")
    # A form sends its empty fields too.
    assert str(admin.get("/jobs?kind=&owner=typed&tag=").url).endswith("/jobs?owner=typed")


@pytest.mark.parametrize("text", ["nonsense", "color:red", "since:yesterday", "abcdef0123"])
def test_what_cannot_be_read_is_said_beside_the_field(admin: httpx.Client, text: str) -> None:
    shown = admin.get("/jobs", params={"owner": "typed", "q": text})
    assert shown.status_code == 400 and f'value="{text}"' in shown.text and 'id="jobs-filter-problem"' in shown.text
    assert '<span class="token"><b>owner</b> typed' in shown.text


@pytest.mark.parametrize("path", ["/jobs?color=red", "/jobs?state=gone", "/jobs?since=never", "/jobs?view=x"])
def test_an_address_that_fits_no_filter_says_what_is_possible(admin: httpx.Client, path: str) -> None:
    shown = admin.get(path)
    assert shown.status_code == 400 and "<h1>" in shown.text


def test_held_jobs_are_listed_with_what_holds_them(world: World, admin: httpx.Client, acme: httpx.Client) -> None:
    held = world.queued(queue="stopped")
    world.app.pause(queue="stopped", actor="ann", reason="a migration")
    free = waiting(world)
    for client in (admin, acme):
        shown = client.get("/jobs?view=held&queue=stopped")
        assert listed(shown) == [held.id] and title(shown) == "1 held job matches."
        assert "Queue stopped is paused" in shown.text and free.id not in shown.text
        assert "/jobs?state=waiting&amp;state=queued&amp;queue=stopped" in shown.text
    world.app.resume(queue="stopped")
    assert title(admin.get("/jobs?view=held&queue=stopped")) == "No held job matches."


def begun(world: World, kind: str) -> str:
    """A job that a worker of another app runs: nothing here waits for it."""
    new = NewJob(id=world.app.wiring.new_id(), kind=kind, owner="acme", arguments="{}")
    world.app.store.enqueue([new])
    lease = timedelta(hours=1)
    claim = Claim(incarnation="w-secret-host", number=1, kinds=[kind], limit=1, lease=lease)
    (found,) = world.app.store.claim(claim).leases
    return found.fence.id


def test_a_running_job_shows_its_progress_and_can_be_cancelled(world: World, site: Site, admin: httpx.Client) -> None:
    job = begun(world, "elsewhere")
    page = f"/jobs/{job}"
    shown = admin.get(page)
    assert title(shown) == "Attempt 1 is running." and forms(shown) >= {"cancel"}
    assert not forms(shown) & {"retry", "run-now", "snooze"}
    assert "It has not reported any progress." in shown.text
    assert job in listed(admin.get("/jobs?state=running"))
    assert "Its worker was asked to stop the job." in site.post(admin, page, f"{page}/cancel", reason="enough").text
    assert title(admin.get(page)) == "Attempt 1 is being stopped."


# Export


def test_an_export_is_what_the_api_gives_with_masked_arguments(world: World, admin: httpx.Client) -> None:
    job = world.failed(owner="export", why="https://ann:hunter2@gateway.example/")
    lines = admin.get("/jobs/export", params={"owner": "export", "events": "true"})
    assert lines.headers["content-disposition"] == 'attachment; filename="jobs.jsonl"'
    assert job.id in lines.text and "job.failed" in lines.text and "hunter2" not in lines.text
    table = admin.get("/jobs/export", params={"owner": "export", "format": "csv"})
    assert table.headers["content-type"].startswith("text/csv")
    assert table.text.startswith("id,kind,owner") and job.id in table.text
    assert job.id not in admin.get("/jobs/export", params={"owner": "nobody-else"}).text


# Moves for many


def begin(site: Site, client: httpx.Client, preview: str, **fields: Any) -> httpx.Response:
    """Send the form of a preview as it is, with these fields changed."""
    shown = client.get(preview)
    assert shown.status_code == 200, shown.text
    sent: dict[str, Any] = {}
    for name, value in re.findall(r'<input type="(?:hidden|text)" name="(\w+)" value="([^"]*)"', shown.text):
        if name in ("job", "ids", "state"):
            sent.setdefault(name, []).append(value)
        elif name not in ("scheme", "q"):
            sent[name] = value
    (action,) = re.findall(r'action="(/(?:jobs/bulk/[^"]+|retry)/begin)"', shown.text)
    return client.post(action, data={**sent, **hidden_fields(shown.text), **fields})


DONE = {"run-now": "run now", "snooze": "snoozed", "cancel": "cancelled"}


@pytest.mark.parametrize(
    ("verb", "state", "extra"),
    [
        ("retry", "failed", {"canary": "0"}),
        ("run-now", "waiting", {}),
        ("snooze", "waiting", {"delay": "3h"}),
        ("cancel", "waiting", {}),
    ],
)
def test_all_that_match_are_moved_by_a_durable_operation(
    world: World, site: Site, admin: httpx.Client, verb: str, state: str, extra: dict[str, str]
) -> None:
    owner = f"bulk-{verb}"
    for _ in range(3):
        world.failed(owner=owner) if state == "failed" else waiting(world, owner=owner)
    other = waiting(world, owner="untouched")
    preview = f"/jobs/bulk/{verb}?state={state}&owner={owner}"
    shown = admin.get(preview)
    assert title(shown) in ("Retry 3 failed jobs.", f"3 jobs can be {DONE.get(verb)}.")
    assert "Nothing has happened yet." in shown.text
    # Jobs go on arriving while a person reads.
    world.failed(owner=owner) if state == "failed" else waiting(world, owner=owner)
    seen = {"seen" if verb == "retry" else "matched": "3"}
    answer = begin(site, admin, preview, reason="the gateway is fixed", **extra, **seen)
    operation = world.app.redrive_status(answer.url.path.removeprefix("/redrives/"))
    assert (operation.matched, operation.reason, operation.verb) == (4, "the gateway is fixed", verb.replace("-", "_"))
    assert operation.actor is not None and operation.actor.startswith("on-call")
    assert operation.filter.owner == owner
    world.app.tick()
    assert world.app.redrive_status(operation.id).retried == 4
    assert world.app.job(other.id).state is State.WAITING


def test_a_selection_is_moved_and_says_what_is_left_out(world: World, site: Site, admin: httpx.Client) -> None:
    first, second = waiting(world, owner="chosen"), waiting(world, owner="chosen")
    failed = world.failed(owner="chosen")
    preview = f"/jobs/bulk/cancel?of=selection&job={first.id}&job={failed.id}"
    shown = admin.get(preview)
    assert title(shown) == "1 job can be cancelled." and "1 of the 2 selected jobs is left out" in shown.text
    answer = begin(site, admin, preview, reason="wrong input")
    assert answer.url.path.startswith("/redrives/")
    world.app.tick()
    states = [world.app.job(job.id).state for job in (first, second, failed)]
    assert states == [State.CANCELLED, State.WAITING, State.FAILED]


def test_a_selection_is_retried_on_the_page_of_retries(world: World, site: Site, admin: httpx.Client) -> None:
    chosen, other, done = world.failed(owner="picked"), world.failed(owner="picked"), world.succeeded(owner="picked")
    shown = admin.get(f"/jobs/bulk/retry?of=selection&job={chosen.id}&job={done.id}")
    assert shown.url.path == "/retry" and title(shown) == "Retry 1 job."
    assert "1 of the 2 selected jobs is left out: only failed or cancelled jobs are retried." in shown.text
    assert re.search(r'href="/jobs\?state=failed&amp;state=cancelled"[^>]*>Back', shown.text)
    answer = begin(site, admin, str(shown.url), reason="pages were added", canary="0")
    operation = world.app.redrive_status(answer.url.path.removeprefix("/redrives/"))
    assert (operation.matched, operation.filter.ids) == (1, (chosen.id, done.id))
    world.app.tick()
    assert [world.app.job(job.id).manual_retries for job in (chosen, other)] == [1, 0]


def test_a_preview_of_more_jobs_than_a_page_can_count_offers_to_count_them(
    world: World, site: Site, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        waiting(world, owner="crowd")
    monkeypatch.setattr("mulligan.store.counts.MOST_READ", 3)
    preview = "/jobs/bulk/cancel?owner=crowd&state=waiting"
    shown = admin.get(preview)
    assert title(shown) == "3 or more jobs can be cancelled." and 'name="matched"' not in shown.text
    (counted,) = re.findall(r'href="([^"]+count=all)"', shown.text)
    assert title(admin.get(unescape(counted))) == "4 jobs can be cancelled."
    answer = begin(site, admin, preview, reason="not wanted any more")
    assert world.app.redrive_status(answer.url.path.removeprefix("/redrives/")).matched == 4


def test_nothing_begins_without_a_reason_or_if_there_are_many_more_jobs_by_now(
    world: World, site: Site, admin: httpx.Client
) -> None:
    waiting(world, owner="grows")
    preview = "/jobs/bulk/cancel?state=waiting&owner=grows"
    before = len(world.app.redrives(limit=100))
    assert "Give a reason" in begin(site, admin, preview, reason=" ").text
    shown = admin.get(preview).text
    for _ in range(6):
        waiting(world, owner="grows")
    sent = {**hidden_fields(shown), "state": "waiting", "owner": "grows", "matched": "1", "reason": "x", "of": "filter"}
    answer = admin.post("/jobs/bulk/cancel/begin", data=sent)
    assert "There are 7 jobs now, and there were 1." in answer.text and answer.url.path == "/jobs/bulk/cancel"
    refused = begin(site, admin, preview, reason="x", rate="fast")
    assert "a rate such as" in refused.text and refused.url.path == "/jobs/bulk/cancel"
    assert len(world.app.redrives(limit=100)) == before


def test_a_preview_without_jobs_says_so(world: World, admin: httpx.Client) -> None:
    done = world.succeeded(owner="calm")
    assert title(admin.get("/jobs/bulk/retry?of=selection")) == "No job is selected."
    assert title(admin.get(f"/jobs/bulk/retry?of=selection&job={done.id}")) == "There is nothing to retry."
    assert title(admin.get("/jobs/bulk/snooze?owner=calm")) == "No job can be snoozed."
    assert admin.get("/jobs/bulk/snooze?state=failed").status_code == 400


def test_only_what_the_state_and_the_key_allow_is_offered(world: World, site: Site, admin: httpx.Client) -> None:
    world.failed(owner="offers")
    waiting(world, owner="offers")

    def offered(client: httpx.Client, state: str) -> set[str]:
        return set(
            re.findall(r'formaction="/jobs/bulk/([a-z-]+)"', client.get(f"/jobs?owner=offers&state={state}").text)
        )

    assert offered(admin, "failed") == {"retry", "run-now"}
    assert offered(admin, "waiting") == {"run-now", "snooze", "cancel"}
    reader = site.client(site.key(None, Scope.JOBS_READ))
    assert offered(reader, "waiting") == set()
    assert reader.get("/jobs/bulk/cancel").status_code == 403


# One job


def test_a_part_of_an_id_leads_to_the_whole(world: World, site: Site, admin: httpx.Client) -> None:
    job = waiting(world)
    for part in (job.id[-8:], job.id[:30]):
        assert str(admin.get(f"/jobs/{part}").url) == f"{site.base}/jobs/{job.id}"
    assert admin.get(f"/jobs/{MISSING}").status_code == 404
    assert admin.get("/jobs/abc").status_code == 404


def test_a_failed_job_tells_its_story_and_can_be_retried(world: World, site: Site, admin: httpx.Client) -> None:
    job = world.failed(why="no pages")
    shown = admin.get(f"/jobs/{job.id}")
    assert title(shown) == "It failed with NOT_PDF." and forms(shown) >= {"retry", "run-now"}
    assert "Attempt 1 failed with NOT_PDF" in shown.text and "No retry follows." in shown.text
    assert "Traceback" in shown.text and "Why is it not running?" not in shown.text
    answer = site.post(admin, f"/jobs/{job.id}", f"/jobs/{job.id}/retry", reason="pages were added")
    assert "The job starts again, with its counters reset." in answer.text
    (event,) = [event for event in world.app.events(job.id) if event.type == "job.retry_requested"]
    assert event.data["reason"] == "pages were added" and event.actor and event.actor.startswith("on-call")
    world.app.run_until_idle()
    told = admin.get(f"/jobs/{job.id}").text
    assert "Retried manually, with all counters reset" in told and "pages were added" in told
    assert "the same error as in attempt 1" in told


def test_a_form_that_is_sent_twice_is_carried_out_once(world: World, admin: httpx.Client) -> None:
    job = world.failed()
    sent = {**hidden_fields(admin.get(f"/jobs/{job.id}").text), "reason": "once"}
    for _ in range(2):
        assert "starts again" in admin.post(f"/jobs/{job.id}/retry", data=sent).text
    assert [event.type for event in world.app.events(job.id)].count("job.retry_requested") == 1


def test_a_waiting_job_says_when_it_goes_on_and_can_be_moved(world: World, site: Site, admin: httpx.Client) -> None:
    job = waiting(world)
    page = f"/jobs/{job.id}"
    shown = admin.get(page)
    assert title(shown) == "It was enqueued for later." and 'class="countdown"' in shown.text
    assert forms(shown) >= {"retry", "run-now", "snooze", "cancel"} and '<li class="shut">' in shown.text
    assert "The job is snoozed until" in site.post(admin, page, f"{page}/snooze", delay="3h", reason="later").text
    assert world.app.job(job.id).due_at > job.due_at
    refused = site.post(admin, page, f"{page}/snooze", delay="soon")
    assert "is not a duration" in refused.text and refused.url.path == page
    assert "The job is due now" in site.post(admin, page, f"{page}/run-now").text
    assert "The job is cancelled." in site.post(admin, page, f"{page}/cancel", reason="not needed").text
    over = admin.get(page)
    assert title(over).startswith("It was cancelled by on-call") and "not needed" in over.text


def test_a_move_that_is_not_legal_any_more_is_refused_on_the_page(
    world: World, site: Site, admin: httpx.Client
) -> None:
    job = world.succeeded()
    answer = site.post(admin, f"/jobs/{job.id}", f"/jobs/{job.id}/cancel")
    assert answer.status_code == 200 and answer.url.path == f"/jobs/{job.id}"
    assert re.search(r'class="answer is-failed".*cannot cancel', answer.text, re.DOTALL)
    assert world.app.job(job.id).state is State.SUCCEEDED


def test_a_retry_says_what_still_blocks_the_job(world: World, site: Site, admin: httpx.Client) -> None:
    job = world.failed()
    world.app.pause(kind="reject", actor="ann")
    answer = site.post(admin, f"/jobs/{job.id}", f"/jobs/{job.id}/retry")
    assert "It does not run yet: kind reject is paused." in answer.text
    assert title(answer) == "It waits: kind reject is paused."
    world.app.resume(kind="reject")


def test_a_job_whose_key_another_one_holds_leads_to_that_job(world: World, site: Site, admin: httpx.Client) -> None:
    first = world.queued(dedupe="one", delay="1h")
    world.app.cancel(first.id)
    twin = world.queued(dedupe="one", delay="1h")
    answer = site.post(admin, f"/jobs/{first.id}", f"/jobs/{first.id}/retry")
    assert "holds the same dedupe key" in answer.text and f'href="/jobs/{twin.id}">See the other job' in answer.text


def test_a_key_is_released_and_a_result_deleted(world: World, site: Site, admin: httpx.Client) -> None:
    job = world.succeeded(dedupe="result", dedupe_scope="succeeded")
    page = f"/jobs/{job.id}"
    assert forms(admin.get(page)) >= {"release-key", "expire-result", "reveal"}
    assert "The dedupe key is released" in site.post(admin, page, f"{page}/release-key", reason="lost").text
    assert "The result is deleted." in site.post(admin, page, f"{page}/expire-result", reason="too old").text
    shown = admin.get(page)
    assert "It was deleted" in shown.text and not forms(shown) & {"release-key", "expire-result"}


def test_secrets_are_masked_and_showing_them_is_recorded(world: World, site: Site, admin: httpx.Client) -> None:
    job = world.failed(why="https://ann:hunter2@gateway.example/")
    page = f"/jobs/{job.id}"
    for path in (page, f"{page}/events", f"{page}/events/download"):
        assert "hunter2" not in admin.get(path).text
    shown = site.post(admin, page, f"{page}/reveal")
    assert shown.status_code == 200 and "hunter2" in shown.text
    entry = world.app.audit(limit=1)[0]
    assert (entry.action, entry.target) == ("POST /jobs/{job_id}/reveal", job.id)
    file = site.post(admin, page, f"{page}/download", part="arguments")
    assert file.headers["content-type"].startswith("text/plain") and "attachment" in file.headers["content-disposition"]
    assert file.headers["x-content-type-options"] == "nosniff" and "hunter2" in file.text
    assert world.app.audit(limit=1)[0].action == "POST /jobs/{job_id}/download"
    assert admin.get(f"{page}/reveal").status_code == 405


def test_a_key_without_the_scope_can_neither_show_secrets_nor_move_jobs(world: World, site: Site) -> None:
    job = world.failed()
    reader = site.client(site.key(None, Scope.JOBS_READ))
    shown = reader.get(f"/jobs/{job.id}")
    assert not forms(shown) & {"retry", "run-now", "reveal"} and "args:reveal" in shown.text
    for verb in ("retry", "run-now", "cancel", "snooze", "reveal", "download", "expire-result", "release-key"):
        answer = site.post(reader, f"/jobs/{job.id}", f"/jobs/{job.id}/{verb}")
        assert answer.status_code == 403, verb
    assert world.app.job(job.id).state is State.FAILED


def test_raw_events_are_paged_and_can_be_downloaded(world: World, admin: httpx.Client) -> None:
    job = waiting(world)
    for number in range(60):
        world.app.snooze(job.id, f"{number + 60}m")
    first = admin.get(f"/jobs/{job.id}/events")
    (later,) = re.findall(r'rel="next" href="([^"]+)"', first.text)
    second = admin.get(later)
    assert (first.text.count("data-row"), second.text.count("data-row")) == (50, 11)
    assert "&#34;type&#34;: &#34;job.enqueued&#34;" in first.text
    file = admin.get(f"/jobs/{job.id}/events/download")
    assert len(file.text.splitlines()) == 61 and file.headers["content-type"].startswith("text/plain")
    story = admin.get(f"/jobs/{job.id}").text
    assert "Snoozed manually for 1 h" in story and len(story) < 150_000


# An owner


def test_an_owner_sees_its_own_jobs_only_and_no_people_or_machines(
    world: World, site: Site, admin: httpx.Client, acme: httpx.Client
) -> None:
    own, foreign = world.failed(owner="acme"), world.failed(owner="globex")
    world.app.retry(own.id, actor="ann-the-operator", reason="a private reason")
    world.app.run_until_idle()
    shown = acme.get("/jobs?state=failed")
    assert own.id in listed(shown) and foreign.id not in shown.text
    for path in ("", "/events", "/events/download"):
        seen = acme.get(f"/jobs/{own.id}{path}")
        assert seen.status_code == 200
        for secret in ("ann-the-operator", "a private reason", "w-secret-host", "Traceback"):
            assert secret not in seen.text, (path, secret)
        assert acme.get(f"/jobs/{foreign.id}{path}").status_code == 404
    assert acme.get(f"/jobs/{foreign.id[-12:]}").status_code == 404
    assert foreign.id not in acme.get("/jobs/export").text and own.id in acme.get("/jobs/export").text
    refused = site.post(acme, f"/jobs/{own.id}", f"/jobs/{foreign.id}/retry")
    assert "no job" in refused.text and world.app.job(foreign.id).state is State.FAILED
    assert title(acme.get("/jobs/bulk/retry?owner=globex")) == "There is nothing to retry."
    assert "starts again" in site.post(acme, f"/jobs/{own.id}", f"/jobs/{own.id}/retry").text


def test_every_page_is_small_and_says_what_it_may_load(world: World, admin: httpx.Client) -> None:
    job = world.failed()
    for path in ("/jobs", "/jobs?view=held", "/jobs?view=stuck", "/jobs/bulk/retry", f"/jobs/{job.id}"):
        shown = admin.get(path)
        assert shown.status_code == 200 and len(shown.content) < 150_000
        assert "default-src 'none'" in shown.headers["content-security-policy"]
        assert not re.search(r"\son\w+=|\sstyle=|<script(?! src)", shown.text)


def test_everything_works_below_another_path(sqlite_world: World) -> None:
    app = sqlite_world.app
    job, done = sqlite_world.failed(), sqlite_world.succeeded()
    with serve(app, Starlette(routes=[Mount("/ops", asgi(app))])) as site:
        client = site.anonymous()
        client.post("/ops/sign-in", data={"key": site.admin.token, "next": "/help"})
        shown = client.get(f"/ops/jobs/{job.id[-12:]}")
        assert shown.url.path == f"/ops/jobs/{job.id}"
        assert all(path.startswith("/ops/") for path in re.findall(r'(?:href|action|src)="(/[^"]*)"', shown.text))
        sent = hidden_fields(client.get(f"/ops/jobs/{done.id}").text)
        # What is refused comes back to the page that it was sent from.
        refused = client.post(f"/ops/jobs/{done.id}/cancel", data=sent)
        assert refused.url.path == f"/ops/jobs/{done.id}" and "cannot cancel" in refused.text
        sent = {**hidden_fields(shown.text), "back": f"/ops/jobs/{job.id}"}
        assert client.post(f"/ops/jobs/{job.id}/retry", data=sent).url.path == f"/ops/jobs/{job.id}"
        assert "/ops/jobs?kind=x" in str(client.get("/ops/jobs", params={"q": "kind:x"}).url)
        assert "/ops/jobs/bulk/cancel" in client.get("/ops/jobs").text
