"""Every block of code in the docs is run, and every link leads somewhere."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_page import EXAMPLE_URL, ROOT, Page, pages
from postgres_server import PostgresServer, postgres_server

SESSION = Path(__file__).parent / "docs_session.py"
PAGES = pages()
SECONDS = 300


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server(fsync="off") as server:
        yield server


@pytest.fixture
def replaced(request: pytest.FixtureRequest, page: Page) -> dict[str, str]:
    """What stands in a page for a server that is really there."""
    if not page.needs_postgres:
        return {}
    server: PostgresServer = request.getfixturevalue("server")
    return {EXAMPLE_URL: server.fresh_database("docs_" + re.sub(r"\W", "_", page.path.stem))}


@pytest.mark.parametrize("page", [page for page in PAGES if page.steps and not page.run_by], ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page: Page, replaced: dict[str, str], tmp_path: Path) -> None:
    todo = tmp_path / "steps.json"
    steps = {"page": page.name, "steps": page.plain(), "replaced": replaced, "is_one_terminal": page.is_one_terminal}
    todo.write_text(json.dumps(steps))
    done = subprocess.run(
        [sys.executable, SESSION, todo], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr


def test_the_tutorial_is_run_as_its_reader_sees_it() -> None:
    tutorial = next(page for page in PAGES if page.path.stem == "tutorial")
    assert tutorial.is_one_terminal
    assert {step.what for step in tutorial.steps} == {"file", "sh", "output"}
    assert {why for _, why in tutorial.skipped} == {"it would install packages from a registry"}


@pytest.mark.parametrize("page", [page for page in PAGES if page.run_by], ids=lambda page: page.name)
def test_a_page_that_another_test_runs_is_named_there(page: Page) -> None:
    test = ROOT / str(page.run_by)
    assert test.exists()
    assert page.path.stem in test.read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_not_run_says_why(page: Page) -> None:
    assert all(len(why) > 10 for _, why in page.skipped)
    # A command in a block without a language would not be run.
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page.path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    plain = [block for language, block in blocks if not language]
    assert not [block for block in plain if re.match(r"\$? ?(mulligan|pip|python|export) ", block)], "mark it as 'sh'"


@pytest.mark.parametrize("path", [ROOT / "README.md", *(page.path for page in PAGES)], ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", path.read_text("utf-8"))
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", text)
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    linked = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#:]+)\)", index)}
    decisions = {path.resolve() for path in (ROOT / "docs" / "decisions").glob("0*.md")}
    missing = {page.path.resolve() for page in PAGES} - linked - decisions - {(ROOT / "docs" / "README.md").resolve()}
    assert sorted(path.name for path in missing) == []
