"""The table of requirements in apps/README.md is complete and true to the code."""

import re

from apps_requirements import BEGIN, END, README, REQUIREMENTS, named_tests


def test_every_requirement_has_a_test_of_its_name() -> None:
    found = named_tests()
    assert set(found) == set(REQUIREMENTS)
    assert [number for number, names in found.items() if not names] == []


def test_the_table_lists_every_test_and_none_that_failed() -> None:
    text = README.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    listed = re.findall(r"`(test_\w+)`", text)
    assert sorted(listed) == sorted(name for names in named_tests().values() for name in names), "run make apps-table"
    assert re.findall(r"\d+ failed|not run", text) == []
