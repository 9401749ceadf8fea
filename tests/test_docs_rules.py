"""The reference of rules says what the code does."""

import re
from pathlib import Path

from mulligan.failure.packs import BUILT_IN
from mulligan.failure.rule import Rule

PAGE = Path(__file__).parents[1] / "docs/reference/rules.md"
TABLES = re.compile(r"(?<=<!-- packs -->\n).*(?=<!-- end of packs -->)", re.DOTALL)


def row(rule: Rule) -> str:
    when = rule.describe().replace("|", r"\|")
    return f"| `{rule.name}` | `{rule.code}` | {rule.error_class} | {when} |\n"


def table(pack: str) -> str:
    head = f"\n### `{pack}`\n\n| rule | code | class | when |\n| --- | --- | --- | --- |\n"
    return head + "".join(row(rule) for rule in BUILT_IN[pack])


def tables() -> str:
    return "".join(table(pack) for pack in BUILT_IN) + "\n"


def test_the_tables_of_the_packs_are_those_of_the_code() -> None:
    found = TABLES.search(PAGE.read_text("utf-8"))
    assert found is not None
    assert found.group() == tables(), f"write them with: python {Path(__file__).name}"


def test_every_condition_of_a_rule_is_explained() -> None:
    conditions = set(Rule.__dataclass_fields__) - {
        "code",
        "error_class",
        "name",
        "retry_after",
        "blames_service",
        "line",
    }
    explained = set(
        re.findall(r"^\| `(\w+)` \| ", PAGE.read_text("utf-8").split("## What was decided")[0], re.MULTILINE)
    )
    assert explained == conditions


if __name__ == "__main__":
    PAGE.write_text(TABLES.sub(lambda _: tables(), PAGE.read_text("utf-8")), "utf-8")
