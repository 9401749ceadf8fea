"""`mulligan doctor`: findings with their remedies, and an exit code for scripts."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from mulligan import App
from mulligan.records.finding import Check

Invoke = Callable[..., Result]
HERE = ("--database", "sqlite:///jobs.db")
PAGE = Path(__file__).parents[2] / "docs" / "operations" / "doctor.md"


def test_problems_come_first_with_their_remedies_and_the_exit_code_is_5(
    invoke: Invoke, works: App, enqueue: Callable[..., str]
) -> None:
    enqueue()
    result = invoke("doctor", *HERE)
    assert result.exit_code == 5
    lines = result.stdout.splitlines()
    assert lines[0] == "problem  workers.alive: no worker is alive, and jobs are waiting"
    assert lines[1] == "         → start one: mulligan worker MODULE:APP"
    assert re.fullmatch(r"1 problem, \d warnings?\.", lines[-1])


def test_warnings_alone_leave_the_exit_code_at_0(invoke: Invoke, works: App) -> None:
    works.migrate()
    result = invoke("doctor", *HERE)
    assert result.exit_code == 0
    assert "\n0 problems, " in result.stdout
    assert "warning  workers.alive: no worker is alive\n" in result.stdout


def test_programs_get_codes_and_levels(invoke: Invoke, works: App, enqueue: Callable[..., str]) -> None:
    enqueue("bad", run=True)
    enqueue()
    result = invoke("doctor", "--json", *HERE)
    assert result.exit_code == 5
    told = json.loads(result.stdout)
    levels = {finding["code"]: finding["level"] for finding in told["findings"]}
    assert (levels["workers.alive"], levels["jobs.failed"], levels["store.schema"]) == ("problem", "warning", "ok")
    assert told["problems"] == 1
    assert all(bool(finding["remedy"]) == (finding["level"] != "ok") for finding in told["findings"])


def test_a_missing_database_is_a_problem_and_is_not_created(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("doctor", "--database", "sqlite:///none.db")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        5,
        "problem  store.reachable: there is no database yet",
    )
    assert not (tmp_path / "none.db").exists()


def test_exactly_the_existing_checks_are_documented() -> None:
    rows = re.findall(r"^\| `([a-z.]+)` \|(.*)\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [code for code, _ in rows] == [str(code) for code in Check], "in the order of the code"
    assert all(len([cell for cell in about.split(" | ") if cell.strip()]) == 3 for _, about in rows)
