"""Variants of a store run every rule with a third of its cases; `make soak PARTS=stores` runs all cases."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from conformance.suite import StoreSuite

ROOT = Path(__file__).parents[2]
FILES = ["tests/stores/test_store_sqlite.py", "tests/stores/test_store_postgres.py"]
# Each variant with the class that runs every case.
VARIANTS = {"TestMemory": "TestFile", "TestPostgresThroughPgbouncer": "TestPostgres"}


@pytest.fixture(scope="module")
def cases() -> dict[str, Counter[str]]:
    """How many cases of each rule pytest runs in short runs, by class."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MULLIGAN_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *FILES]
    listing = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert listing.returncode == 0, listing.stdout[-2_000:] + listing.stderr[-2_000:]
    found: dict[str, Counter[str]] = {}
    for line in listing.stdout.splitlines():
        match line.partition("[")[0].split("::"):
            case [_, kind, rule]:
                found.setdefault(kind, Counter())[rule] += 1
    return found


def test_every_variant_runs_every_rule_with_a_third_of_its_cases(cases: dict[str, Counter[str]]) -> None:
    rules = {name for name in dir(StoreSuite) if name.startswith("test_")}
    for variant, whole in VARIANTS.items():
        assert set(cases[whole]) == rules
        assert cases[variant] == {rule: -(-number // 3) for rule, number in cases[whole].items()}, variant
