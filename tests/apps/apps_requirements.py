"""The table of apps/README.md: each requirement of the four applications, the tests named after it, and their results.

`make apps-table` runs the tests and writes it anew; with ARGS=FILE it takes the results of a run from the XML file that
`pytest --junitxml=FILE` wrote. The rows of applications that this run left out stay as they are.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parent
README = HERE.parents[1] / "apps" / "README.md"
BEGIN, END = "<!-- requirements: begin -->", "<!-- requirements: end -->"
TEST = re.compile(r"^ *(?:async )?def (test_([prws]\d+)_\w+)", re.MULTILINE)

REQUIREMENTS = {
    "P1": "Uploads are checked, deduplicated, capped and can be paused",
    "P2": "The gateway's answers decide what is retried; results are written atomically",
    "P3": "At most 3 attempts, 5 s and 15 s apart, or the other formula by configuration",
    "P4": "Downloads: not ready, expired, forbidden, unknown",
    "P5": "Manual retry by the owner, while the source exists",
    "P6": "A breaker around the gateway, that holds jobs or fails fast",
    "P7": "The nine acceptance checks",
    "P8": "One line for people for each code, word for word",
    "R1": "Runs are polled, stored once and verified by replaying them",
    "R2": "Final, retryable and rate-limited errors",
    "R3": "8 attempts from 60 s to an hour, by configuration",
    "R4": "New runs and due retries compete by submission date",
    "R5": "Success clears the retry fields; final failure keeps the error",
    "W1": "Campaigns, tokens, visible and invisible marks, detection",
    "W2": "Retries after 1, 5 and 15 minutes; detection never retries",
    "W3": "What FFmpeg and the system report decides what is retried",
    "W4": "States of a campaign follow from its tokens",
    "W5": "Manual retry of a token",
    "W6": "Publishing again never makes a second job for a token",
    "W7": "The campaign page, live, with its exact words",
    "W8": "Mails to the owner, and a webhook when a campaign is ready",
    "W9": "Download links that are used up or expire",
    "W10": "A campaign may set its own attempt limit",
    "S1": "Screenshots and PDF files of pages by real Chromium",
    "S2": "Retries after 5, 25 and 125 s; what is final",
    "S3": "Manual retry with every documented answer",
    "S4": "Credits are reserved, returned and reserved again",
    "S5": "Administration: stuck jobs, workers, schedulers",
    "S6": "Policies by kind in a YAML file",
    "S7": "The page of a user; one breaker for each host",
}


def named_tests() -> dict[str, list[str]]:
    """The tests of each requirement, by their names in the code."""
    found: dict[str, list[str]] = {number: [] for number in REQUIREMENTS}
    for path in sorted(HERE.rglob("test_*.py")):
        for name, number in TEST.findall(path.read_text("utf-8")):
            found.setdefault(number.upper(), []).append(name)
    return found


def run_tests() -> dict[str, Counter[str]]:
    with tempfile.NamedTemporaryFile(suffix=".xml") as file:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", f"--junitxml={file.name}", str(HERE)]
        subprocess.run(command, check=False)
        return read_results(file.name)


def read_results(file: str) -> dict[str, Counter[str]]:
    """How often each test passed, failed and was skipped, by name."""
    found: dict[str, Counter[str]] = {}
    for case in ElementTree.parse(file).iter("testcase"):
        name = case.get("name", "").partition("[")[0]
        children = {child.tag for child in case}
        outcome = "failed" if children & {"failure", "error"} else "skipped" if "skipped" in children else "passed"
        found.setdefault(name, Counter())[outcome] += 1
    return found


def table(outcomes: Mapping[str, Counter[str]], before: str = "") -> Iterator[str]:
    rows = {row.split("|")[1].strip(): row for row in before.splitlines() if row.startswith("|")}
    yield "| | requirement | tests | result |"
    yield "| --- | --- | --- | --- |"
    for number, names in named_tests().items():
        total: Counter[str] = sum((outcomes.get(name, Counter()) for name in names), Counter())
        if not total and number in rows:
            yield rows[number]
            continue
        result = ", ".join(f"{count} {outcome}" for outcome, count in sorted(total.items(), key=lambda each: each[0]))
        tests = "<br>".join(f"`{name}`" for name in names)
        yield f"| {number} | {REQUIREMENTS[number]} | {tests} | {result or 'not run'} |"


def write(outcomes: Mapping[str, Counter[str]]) -> None:
    before, _, rest = README.read_text("utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n{chr(10).join(table(outcomes, old))}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    write(read_results(sys.argv[1]) if len(sys.argv) > 1 else run_tests())
