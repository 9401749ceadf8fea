"""The fields of events: none that the reference does not list, and all that it lists.

Each test of a store checks the first. For the second only the rules of the suite count: what they write is the same in
each run, while the worlds and examples of other tests are drawn.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mulligan.lifecycle import SCHEDULE_PLANNED, SCHEDULE_SKIPPED
from mulligan.records.event import Event

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "events.md"
# Written by duties: `tests/docs/test_reference.py` has them.
ELSEWHERE = (SCHEDULE_PLANNED, SCHEDULE_SKIPPED)
# Written when a duty forgets an owner: `tests/stores/test_store_forget.py` has them.
BY_A_DUTY = {"redrive.finished purged", "redrive.finished because"}
# Every case of each rule runs in it, whatever else is installed.
EVERY_RULE = "TestFile"

# The data of an event that cannot be read.
DAMAGED = "damaged"

seen: set[str] = set()
ran: set[str] = set()
is_rule_running = False


@cache
def documented() -> dict[str, frozenset[str]]:
    """The fields of each type of event, as the reference lists them."""
    table = PAGE.read_text("utf-8").partition("| type |")[2].split("\n\n")[0]
    rows = [[re.findall(r"`([\w.]+)`", cell) for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {names[0]: frozenset(fields) for names, _, fields in rows}


def check_fields(events: Iterable[Event]) -> None:
    for event in events:
        extra = event.data.keys() - documented()[event.type] - {DAMAGED}
        assert not extra, f"docs/reference/events.md does not list these fields of {event.type}"
        if is_rule_running:
            seen.update(f"{event.type} {name}" for name in event.data)


def missing() -> list[str]:
    listed = {f"{type_} {name}" for type_, names in documented().items() if type_ not in ELSEWHERE for name in names}
    return sorted(listed - seen - BY_A_DUTY)


class FieldsPlugin:
    """Gathers what the processes of a run have seen."""

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        global is_rule_running
        is_rule_running = f"::{EVERY_RULE}::" in item.nodeid
        if is_rule_running:
            ran.add(item.nodeid.rpartition("::")[2].partition("[")[0])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        found = getattr(node, "workeroutput", {})
        seen.update(found.get("event_fields", ()))
        ran.update(found.get("suite_tests", ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output.update(event_fields=sorted(seen), suite_tests=sorted(ran))
        elif self._is_whole() and (lost := missing()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            reporter = session.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.write_line(f"docs/reference/events.md lists fields that no store wrote: {', '.join(lost)}")

    def _is_whole(self) -> bool:
        from conformance.suite import StoreSuite

        return bool(ran) and {name for name in dir(StoreSuite) if name.startswith("test_")} <= ran
