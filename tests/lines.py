"""Prints how many lines of Python each package of the wheel has: code, imports, docstrings and comments, blank lines.

`python tests/lines.py` counts the packages, `python tests/lines.py store` the modules of one.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "mulligan"
KINDS = ("code", "imports", "docs", "blank")


def count_lines(text: str) -> Counter[str]:
    """Count the lines by kind. A comment behind code is code; a blank line in a docstring belongs to it."""
    known = dict(_known_lines(ast.parse(text)))
    return Counter(known.get(number) or _kind(line) for number, line in enumerate(text.splitlines(), 1))


def _known_lines(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            # A string that stands alone: a docstring, also below a field.
            case ast.Expr(value=ast.Constant(value=str())):
                kind = "docs"
            case ast.Import() | ast.ImportFrom():
                kind = "imports"
            case _:
                continue
        yield from ((number, kind) for number in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _kind(line: str) -> str:
    if line.lstrip().startswith("#"):
        return "docs"
    return "code" if line.strip() else "blank"


def count_below(folder: Path) -> dict[str, Counter[str]]:
    """The lines of each entry of the folder, by its name."""
    found: dict[str, Counter[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).parts[0]
        found.setdefault(name, Counter()).update(count_lines(path.read_text("utf-8")))
    return found


def table(found: dict[str, Counter[str]]) -> str:
    rows = [*sorted(found.items(), key=lambda row: -row[1].total()), ("in all", sum(found.values(), Counter()))]
    lines = [f"{'':24}{'lines':>8}" + "".join(f"{kind:>8}" for kind in KINDS)]
    lines += [f"{name:24}{of.total():8,}" + "".join(f"{of[kind]:8,}" for kind in KINDS) for name, of in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table(count_below(SOURCE.joinpath(*sys.argv[1:2]))))
