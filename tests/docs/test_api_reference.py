"""The API reference is what the code says now, and it is complete."""

import inspect
import re
import sys
from datetime import timedelta

import docs_api
import pytest
from docs_remedies import REMEDIES

import mulligan
from mulligan import App, RetryPolicy
from mulligan.testing import sandbox

ERRORS = sys.modules[mulligan.JobNotFound.__module__]


@pytest.mark.parametrize("page", docs_api.PAGES)
def test_a_page_is_what_the_code_says_now(page: str) -> None:
    stored = (docs_api.REFERENCE / page).read_text("utf-8")
    assert stored == docs_api.written(page), "run: make docs"


@pytest.mark.parametrize("name", mulligan.__all__)
def test_every_public_name_is_listed_and_explained(name: str) -> None:
    index = docs_api.written("api.md")
    assert f"[`{name}`](" in index
    found = re.search(rf"\[`{name}`\]\(([^)#]*)#([^)]*)\)", index)
    assert found
    page = docs_api.written(found[1] or "api.md")
    titles = [re.sub(r"\W+", "-", title.strip("`# ").lower()) for title in re.findall(r"^##+ .*", page, re.MULTILINE)]
    assert found[2] in titles
    assert f"`{name}`" in page


@pytest.mark.parametrize(
    ("title", "function"),
    [("App", App.__init__), ("app.task", App.task), ("task.options", docs_api.Kinds.Task.options)],
    ids=["App", "app.task", "task.options"],
)
def test_every_option_has_its_default_and_its_meaning(title: str, function: object) -> None:
    section = docs_api.written("api.md").split(f"### `{title}`\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| (`[^|]*`) \| ([^|]+) \|$", section.replace(r"\|", "/"), re.MULTILINE)
    assert [name for name, _, _ in rows] == [name for name in inspect.signature(function).parameters if name != "self"]


def test_every_error_says_what_a_caller_can_do() -> None:
    assert sorted(REMEDIES) == sorted({*ERRORS.__all__, "MulliganError"} - set(docs_api.RAISED))


def test_a_job_without_a_policy_lives_as_long_as_the_page_says() -> None:
    page = docs_api.written("api-policies.md")
    least, most = re.findall(r"(\d+m\d+s) at least and (\d+m\d+s) at most", page)[0]
    app = App("sqlite:///:memory:")

    @app.task
    def fail() -> None:
        raise ValueError("always")

    with sandbox(app) as box:
        begin, job = box.now, fail.enqueue()
        box.advance("1h")
        ended = app.job(job.id)
    assert ended.state == "failed"
    assert ended.attempt == RetryPolicy().max_attempts
    assert ended.finished_at is not None
    assert _seconds(least) <= ended.finished_at - begin <= _seconds(most) + timedelta(seconds=1)


def _seconds(text: str) -> timedelta:
    minutes, seconds = re.findall(r"\d+", text)
    return timedelta(minutes=int(minutes), seconds=int(seconds))


def test_the_guide_explains_every_option_of_a_call() -> None:
    guide = (docs_api.REFERENCE.parent / "guides" / "options.md").read_text("utf-8")
    listed = re.findall(r"^\| \[`(\w+)`\]\(#[\w-]+\) \|", guide, re.MULTILINE)
    assert listed == [name for name in inspect.signature(docs_api.Kinds.Task.options).parameters if name != "self"]
