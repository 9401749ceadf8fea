"""Addresses that do not exist: a page for a person, a problem for a program."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from mulligan import App
from mulligan.web.server import asgi

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        key = app.create_key(owner=None, name="on-call").token
        application = Starlette(routes=[Mount("/ops", asgi(app))])
        with TestClient(application, follow_redirects=False) as found:
            found.post("/ops/sign-in", data={"key": key})
            yield found


def test_the_failures_are_the_first_page(client: TestClient) -> None:
    answer = client.get("/ops/failures", headers=BROWSER)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ops/")


def test_a_person_gets_a_page_for_an_unknown_address(client: TestClient) -> None:
    answer = client.get("/ops/nowhere/<b>", headers=BROWSER)
    assert answer.status_code == 404 and answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"] and "<b>" not in answer.text
    assert 'href="/ops/jobs"' in answer.text, "the menu of a person who is signed in"
    client.cookies.clear()
    answer = client.get("/ops/nowhere", headers=BROWSER)
    assert answer.status_code == 404 and 'href="/ops/jobs"' not in answer.text


def test_a_program_gets_a_problem_for_an_unknown_address(client: TestClient) -> None:
    for path, headers in (("/ops/nowhere", {}), ("/ops/api/v1/nowhere", BROWSER)):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), path
