"""A page of the docs as steps that can be run.

Blocks marked `python`, `sh` and `sql` are run, in their order, in one folder and one session a page. Comments in the
page say what a reader need not see. Blocks marked `py` (signatures, code of other systems) are not run.


    <!-- docs: file shop.py -->             the next block is that file
    <!-- docs: output -->                   the next block is what the one before prints; … stands for anything
    <!-- docs: skip: why -->                the next block is not run
    <!-- docs: fails -->                    the next block ends with an error
    <!-- docs: hidden CODE -->              Python that is run here (over several lines)
    <!-- docs: terminal -->                 for the page: all its commands are run in one shell, as in one terminal
    <!-- docs: postgres -->                 for the page: the example URL leads to a real, fresh database
    <!-- docs: run by tests/x/test_y.py --> for the page: that test runs it
"""

import re
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RUN = ("python", "sh", "sql")
EXAMPLE_URL = "postgresql://app:secret@db.example/shop"

_PART = re.compile(
    r"<!--\s*docs:\s*(?P<directive>.*?)-->|^ *```(?P<language>\w*)\n(?P<code>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Step:
    """`what` is a language of RUN, or file, output, fails."""

    what: str
    code: str
    line: int
    name: str = ""


@dataclass(frozen=True)
class Page:
    path: Path
    steps: tuple[Step, ...]
    needs_postgres: bool
    is_one_terminal: bool
    run_by: str | None
    skipped: tuple[tuple[int, str], ...]

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def plain(self) -> list[dict[str, object]]:
        return [asdict(step) for step in self.steps]


def pages() -> list[Page]:
    return [read(path) for path in sorted((ROOT / "docs").rglob("*.md"))]


def read(path: Path) -> Page:
    text = path.read_text("utf-8")
    steps: list[Step] = []
    skipped: list[tuple[int, str]] = []
    page: dict[str, str] = {}
    pending = ""
    for part in _PART.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        if part["directive"] is None:
            step = _step(part["language"], part["code"], line, pending)
            if pending.startswith("skip"):
                skipped.append((line, pending.removeprefix("skip").strip(": ")))
            elif step is not None:
                steps.append(step)
            pending = ""
            continue
        word, _, rest = part["directive"].strip().partition("\n" if "\n" in part["directive"].strip() else " ")
        match word.strip(" :"):
            case "hidden":
                steps.append(Step("python", rest, line))
            case "postgres" | "run" | "terminal":
                page[word] = rest
            case "file" | "output" | "fails" | "skip":
                pending = part["directive"].strip()
            case unknown:
                raise ValueError(f"{path}:{line}: unknown word {unknown!r}; see {__name__}")
    return Page(
        path,
        tuple(steps),
        needs_postgres="postgres" in page,
        is_one_terminal="terminal" in page,
        run_by=page.get("run", "").removeprefix("by ") or None,
        skipped=tuple(skipped),
    )


def _step(language: str, code: str, line: int, pending: str) -> Step | None:
    word, _, rest = pending.partition(" ")
    if word == "file":
        return Step("file", code, line, rest.strip())
    if word == "output":
        return Step("output", code, line)
    if language not in RUN:
        return None
    return Step("fails" if word == "fails" else language, code, line, language)
