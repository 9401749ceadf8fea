"""The pages, without a browser: words, retries, rights, and what is not found."""

import re
from collections.abc import Iterator

import httpx2
import pytest
from apps.runs.leaderboard import players
from apps.runs.site import build_site
from runs_world import World, honest
from site_server import serve
from starlette.testclient import TestClient

from mulligan import JobFilter


class Visitor:
    def __init__(self, world: World, client: TestClient) -> None:
        self.world, self.client = world, client

    def get(self, path: str) -> str:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def sign_in(self) -> None:
        key = self.world.app.create_key(owner=None, name="on-call")
        answer = self.post("/admin/sign-in", "/admin/sign-in", key=key.token, next="/")
        assert answer.status_code == 200, answer.text

    def post(self, page: str, action: str, **fields: str) -> httpx2.Response:
        found = re.search(r'name="csrf" value="([^"]*)"', self.get(page))
        assert found is not None
        return self.client.post(action, data={"csrf": found[1], **fields})  # type: ignore[return-value]


@pytest.fixture
def visitor(quick_world: World) -> Iterator[Visitor]:
    yield from _visit(quick_world)


@pytest.fixture
def visitor_of_each_store(world: World) -> Iterator[Visitor]:
    yield from _visit(world)


def _visit(world: World) -> Iterator[Visitor]:
    with TestClient(build_site(world.verifier).asgi(), base_url="http://127.0.0.1") as client:
        yield Visitor(world, client)


def rows(text: str) -> dict[str, str]:
    """The row of each run, without its tags."""
    found = re.findall(r'<tr role="row" id="run-([^"]*)">(.*?)</tr>', text, re.DOTALL)
    return {run: " ".join(re.sub(r"<[^>]*>", " ", row).split()) for run, row in found}


def tabs(text: str) -> dict[str, int]:
    found = re.findall(r"</svg>(\w+) <span class=\"count\">([\d,]+)\+?</span>", text)
    return {word: int(number) for word, number in found}


def test_r5_an_empty_page_says_what_will_stand_there(visitor: Visitor) -> None:
    text = visitor.get("/")
    assert "No run was found yet." in text and "Waiting for the leaderboard." in text
    for word in ("Discovered", "Processing", "Passed", "NeedsReview", "Failed", "Error"):
        visitor.get(f"/?word={word}")


def test_r5_the_page_shows_runs_by_state(visitor_of_each_store: Visitor) -> None:
    visitor = visitor_of_each_store
    world = visitor.world
    world.submit(honest("first"), players.inflate(honest("cheat")), honest("down"), honest("limited"), honest("bad"))
    world.break_answers("broken", run="down")
    world.break_answers("rate_limited", run="limited", retry_after="600")
    world.break_answers("garbage", run="bad")
    world.verify_all(concurrency=1)
    world.submit(honest("second"), honest("third", "taxi"))
    world.verify_all(concurrency=1)
    text = visitor.get("/")
    assert tabs(text) == {
        "Discovered": 0,
        "Processing": 0,
        "Passed": 1,
        "NeedsReview": 2,
        "Failed": 1,
        "Error": 3,
    }
    shown = rows(text)
    assert shown["first"].startswith("NeedsReview") and "new record" in shown["first"]
    assert shown["second"].startswith("Passed")
    assert shown["cheat"].startswith("Failed") and "Claimed 100, scored 0" in shown["cheat"]
    assert "Retryable" in shown["down"] and "HTTP_5XX · retry 1 of 7 in" in shown["down"]
    assert "RateLimited" in shown["limited"] and "no attempt is used up" in shown["limited"]
    assert "Final The replay cannot be read." in shown["bad"] and "no retry follows" in shown["bad"]
    assert "4 in the last hour" in text
    for word, ids in {"Error": {"down", "limited", "bad"}, "Passed": {"second"}, "Discovered": set()}.items():
        assert set(rows(visitor.get(f"/?word={word}"))) == ids


def test_r1_the_page_shows_a_category_that_is_no_longer_allowed(visitor_of_each_store: Visitor) -> None:
    visitor = visitor_of_each_store
    world = visitor.world
    world.submit(honest("a", "taxi"), honest("b", "taxi"))
    world.break_answers("broken", run="a")
    world.app.pause(kind="verify", actor="test")
    world.verify_all()
    world.configure(categories=["cartpole"])
    text = visitor.get("/")
    assert "2 stored runs of taxi are not claimed: the category is no longer allowed." in text
    assert all("Category no longer allowed" in row for row in rows(text).values())
    assert "Category no longer allowed" in visitor.get("/runs/a")


def test_r5_the_page_of_a_run_tells_its_history(visitor: Visitor) -> None:
    world = visitor.world
    world.submit(honest("a", player="ada"))
    world.break_answers("broken", run="a")
    world.verify_all()
    text = visitor.get("/runs/a")
    assert "Error" in text and "by ada" in text and "HTTP_5XX" in text and "retry 1 of 7" in text
    world.app.run_now(world.job("a").id, actor="ann")
    world.app.run_until_idle(timeout="30s")
    text = visitor.get("/runs/a")
    assert "NeedsReview" in text and "retry 1 of 7" not in text


def test_r2_an_administrator_retries_a_run_on_the_page(visitor: Visitor) -> None:
    world = visitor.world
    world.submit(honest("a"))
    world.break_answers("garbage", run="a")
    world.verify_all()
    assert "/runs/a/retry" not in visitor.get("/runs/a"), "people who are not signed in only look"
    visitor.sign_in()
    answer = visitor.post("/runs/a", "/runs/a/retry")
    assert "Retry queued for a." in answer.text
    world.app.run_until_idle(timeout="30s")
    assert world.outcome("a") == "NeedsReview"
    answer = visitor.post("/", "/runs/a/retry")
    assert "Not retried:" in answer.text


def test_a_retry_needs_an_administrator_and_the_form(visitor: Visitor) -> None:
    world = visitor.world
    world.submit(honest("a"))
    world.break_answers("garbage", run="a")
    world.verify_all()
    refused = visitor.client.post("/runs/a/retry", data={"csrf": "guessed"})
    assert refused.status_code == 403
    foreign = visitor.client.post("/runs/a/retry", headers={"Origin": "https://example.org"})
    assert foreign.status_code == 403
    anonymous = visitor.post("/admin/sign-in", "/runs/a/retry")
    assert anonymous.status_code == 401
    assert visitor.client.get("/runs/a/retry").status_code == 405
    assert world.job("a").state == "failed"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs/nothing", 404),
        ("/runs/..%2f..%2fetc%2fpasswd", 404),
        ("/?word=Everything", 404),
        ("/?cursor=x", 400),
        ("/?cursor=99999999999999999999999~a", 400),
        ("/?word=Error&cursor=x", 400),
        ("/nothing", 404),
    ],
)
def test_what_is_not_there_is_not_found(visitor: Visitor, path: str, status: int) -> None:
    answer = visitor.client.get(path)
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text and str(visitor.world.file.parent) not in answer.text


def test_a_nul_in_an_address_is_not_found(visitor_of_each_store: Visitor) -> None:
    """PostgreSQL refuses to be asked for it."""
    statuses = [visitor_of_each_store.client.get(path).status_code for path in ("/runs/%00", "/?cursor=1~%00")]
    assert statuses == [404, 400]


def test_hostile_names_are_text(visitor: Visitor) -> None:
    world = visitor.world
    world.submit(honest("a", player="<script>alert(1)</script>"))
    world.verify_all()
    for path in ("/", "/runs/a"):
        text = visitor.get(path)
        assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text


def test_long_lists_have_pages(visitor_of_each_store: Visitor) -> None:
    visitor = visitor_of_each_store
    world = visitor.world
    for number in range(120):
        world.board.add("frozen-lake", {"id": f"bad-{number}", "category": "frozen-lake"}, f"bad-{number}", b"")
    world.verify_all()
    for start in ("/", "/?word=Error"):
        seen, path = list[str](), start
        while path:
            text = visitor.get(path)
            seen += rows(text)
            older = re.search(r'rel="next" href="([^"]*)"', text)
            path = older[1].replace("&amp;", "&") if older else ""
        assert len(seen) == len(set(seen)) == 120


def test_r2_the_page_says_that_the_leaderboard_cannot_be_polled(visitor: Visitor) -> None:
    visitor.world.break_answers("rate_limited", route="runs", retry_after="500")
    visitor.world.verify_all()
    text = visitor.get("/")
    assert "The leaderboard could not be asked for new runs" in text and "RATE_LIMITED" in text


def test_r2_the_page_says_that_a_poll_has_failed_for_good(visitor: Visitor) -> None:
    """The address of another server, which knows no runs."""
    world = visitor.world
    leaderboard = world.verifier.configuration.current.leaderboard
    with serve(world.app) as another:
        world.configure(leaderboard=another.base)
        world.verify_all()
    text = visitor.get("/")
    assert "The leaderboard could not be asked for new runs" in text and "<code>HTTP_4XX</code>" in text
    # The next poll is not tried yet.
    world.poll()
    assert "<code>HTTP_4XX</code>" in visitor.get("/")
    world.configure(leaderboard=leaderboard)
    world.app.run_until_idle(timeout="30s")
    assert "could not be asked" not in visitor.get("/")


def test_r3_the_empty_page_says_how_often_the_leaderboard_is_asked(visitor: Visitor) -> None:
    visitor.world.configure(poll_interval=20)
    assert "every 20 seconds" in visitor.get("/")


def test_a_broken_configuration_is_shown(visitor: Visitor) -> None:
    visitor.world.file.write_text("categories: 7")
    assert "The configuration file cannot be used" in visitor.get("/")


def test_a_run_whose_job_was_deleted_keeps_its_result(visitor: Visitor) -> None:
    world = visitor.world
    world.submit(honest("a"), honest("bad"))
    world.break_answers("garbage", run="bad")
    world.verify_all()
    for state in ("succeeded", "failed"):
        world.app.purge(JobFilter(state=state, kind="verify"), older_than=0, dry_run=False, actor="ann")
    shown = rows(visitor.get("/"))
    assert shown["a"].startswith("NeedsReview") and "deleted by the retention" in shown["bad"]
    visitor.get("/runs/a")
    visitor.get("/runs/bad")
    visitor.sign_in()
    answer = visitor.post("/", "/runs/bad/retry")
    assert answer.status_code == 200 and "Not retried: its history was deleted" in answer.text
