"""The count of lines tells code from what explains it."""

from lines import SOURCE, count_below, count_lines

TEXT = '''"""A module.

Its idea.
"""

from os import (
    path,
)

# Why.
LIMIT = 1  # a comment behind code
"""A field's docstring."""
'''


def test_every_line_has_one_kind() -> None:
    assert count_lines(TEXT) == {"docs": 6, "blank": 2, "imports": 3, "code": 1}


def test_every_package_is_counted() -> None:
    counted = sum(lines.total() for lines in count_below(SOURCE).values())
    assert counted == sum(len(path.read_text("utf-8").splitlines()) for path in SOURCE.rglob("*.py"))
