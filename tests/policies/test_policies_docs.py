"""The reference names every key the code knows, and none besides; its examples can be used."""

import re
from pathlib import Path

import pytest

from mulligan.policies.owner import KEYS as OWNER_KEYS
from mulligan.policies.queue import KEYS as QUEUE_KEYS
from mulligan.policies.reading import BACKOFF_KEYS, JOB_TYPE, RULE_KEYS, SPELLINGS, TOP, WINDOW_KEYS, read
from mulligan.policies.section import KEYS
from mulligan.policies.service import KEYS as SERVICE_KEYS

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference/policies.md").read_text("utf-8")
PARTS = {
    "The top": TOP,
    "A section": KEYS,
    "A backoff": BACKOFF_KEYS,
    "A window": WINDOW_KEYS,
    "A rule": RULE_KEYS,
    "A service": SERVICE_KEYS,
    "A queue": QUEUE_KEYS,
    "An owner": OWNER_KEYS,
    "The other spelling": (JOB_TYPE, *SPELLINGS),
}


@pytest.mark.parametrize("part", PARTS)
def test_the_reference_names_every_key(part: str) -> None:
    _, _, text = REFERENCE.partition(f"## {part}\n")
    table = text.partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(PARTS[part])


@pytest.mark.parametrize("page", ["reference/policies.md", "guides/policies.md"])
def test_the_examples_can_be_used(page: str) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    assert examples
    for example in examples:
        assert read(example.encode(), page).all_kinds
