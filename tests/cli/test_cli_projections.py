"""`mulligan projections`: list and drop, as text and as JSON."""

from collections.abc import Callable
from typing import Any

from click.testing import Result

from mulligan import App

Invoke = Callable[..., Result]
HERE = ("--database", "sqlite:///jobs.db")


def test_projections_are_listed_the_furthest_behind_first(
    invoke: Invoke, read_json: Callable[[Result], Any], works: App, enqueue: Callable[..., str]
) -> None:
    works.migrate()
    assert invoke("projections", *HERE).stdout == "No projections. app.project(…) begins one.\n"
    enqueue()
    works.project("bills", lambda *_: None)
    enqueue()
    works.project("totals", lambda *_: None)
    lines = invoke("projections", *HERE).stdout.splitlines()
    assert lines[0].split() == ["Projection", "Position", "Moved", "About"]
    assert lines[1].endswith("behind the end, 2; no event after its position is deleted")
    assert [line.split()[:2] for line in lines[1:]] == [["bills", "1"], ["totals", "2"]]
    found = read_json(invoke("projections", "--json", *HERE))
    assert found["last_position"] == 2
    assert [(each["name"], each["position"]) for each in found["projections"]] == [("bills", 1), ("totals", 2)]


def test_a_projection_is_dropped_and_an_unknown_one_is_not_found(
    invoke: Invoke, read_json: Callable[[Result], Any], works: App, enqueue: Callable[..., str]
) -> None:
    enqueue()
    works.project("bills", lambda *_: None)
    missing = invoke("projections", "drop", "bill", *HERE)
    assert missing.exit_code == 4
    assert missing.stderr.startswith("Error: no projection is named 'bill'; did you mean 'bills'?")
    assert read_json(invoke("projections", "drop", "bills", "--json", *HERE)) == {"dropped": "bills"}
    assert works.projections() == []
