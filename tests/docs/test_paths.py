"""The pages about the source, and the commands that run the tests, name files that exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_page import ROOT

DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "mulligan"
PAGES = [DOCS / "architecture.md", DOCS / "testing.md", *sorted((DOCS / "decisions").glob("*.md"))]


def paths(page: Path) -> Iterator[str]:
    for code in re.findall(r"`([^`\n]+)`", page.read_text("utf-8")):
        yield from re.findall(r"(?<![\w./*-])(?:[\w*.-]+/)*[\w*-]+\.(?:py|sql)\b", code)
        yield from re.findall(r"^(?:[\w-]+/)+$", code)


def exists(path: str) -> bool:
    folders = [ROOT, SOURCE, ROOT / "tests" / "simulator"]
    # A statement has the same name in every store.
    return any(any(folder.glob(path)) for folder in folders) or (path.endswith(".sql") and any(SOURCE.rglob(path)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    assert [path for path in paths(page) if not exists(path)] == []


@pytest.mark.parametrize("commands", ["Makefile", "tests/pythons.py"])
def test_every_test_that_a_command_names_exists(commands: str) -> None:
    named = re.findall(r"\btests(?:/\w+)+(?:\.\w+)?", (ROOT / commands).read_text("utf-8"))
    assert named and [path for path in named if not (ROOT / path).exists()] == []


def test_the_architecture_is_short_enough_to_be_read() -> None:
    assert len((DOCS / "architecture.md").read_text("utf-8").split()) <= 1_500
