"""The strings below the fields of a class, which Python itself does not keep."""

import ast
import inspect
import textwrap
from functools import cache


@cache
def field_docs(kind: type) -> dict[str, str]:
    """What is written below each field of the class and of its bases, in one line. Empty without source code."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        found |= _own_docs(each)
    return found


def _own_docs(kind: type) -> dict[str, str]:
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    if not isinstance(body, ast.ClassDef):
        return {}
    pairs = zip(body.body, body.body[1:], strict=False)
    return {name: text for field, below in pairs if (name := _field(field)) and (text := _string(below))}


def _field(statement: ast.stmt) -> str:
    """The name of an annotated field; empty for another statement."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    return ""


def _string(statement: ast.stmt) -> str:
    """A string that stands alone, in one line; empty for another statement."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return ""
    value = statement.value.value
    return " ".join(value.split()) if isinstance(value, str) else ""
