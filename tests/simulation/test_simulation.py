"""Worlds from seeds: no promise is broken in any of them, and together they get everywhere.

`MULLIGAN_SEEDS=1000-1999` runs others than those of every change.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mulligan.testing.simulation import SOMETIMES, Reached, Report, simulate

GROUP = 5


def seeds() -> list[int]:
    first, _, last = os.environ.get("MULLIGAN_SEEDS", "0-59").partition("-")
    return list(range(int(first), int(last or first) + 1))


SEEDS = seeds()
GROUPS = [SEEDS[begin : begin + GROUP] for begin in range(0, len(SEEDS), GROUP)]


def told(report: Report) -> str:
    """The end of the story of a seed that failed, and how to hear the whole."""
    story = simulate(report.seed, is_told=True).story
    replay = f"python -m mulligan.testing.simulation {report.seed} --trace"
    return "\n".join([f"seed {report.seed}: {report.broken}", *story[-40:], replay])


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all test processes of this run note what was reached."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "reached"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group[0]}-{group[-1]}")
def test_no_promise_is_broken_whatever_happens(group: list[int], notes: Path) -> None:
    for seed in group:
        report = simulate(seed)
        assert report.broken is None, told(report)
        assert report.hours >= 1
        assert report.jobs > 0
        note(report, notes)


def note(report: Report, notes: Path) -> None:
    draft = notes / f"{report.seed}.{os.getpid()}"
    draft.write_text("\n".join(report.reached))
    draft.rename(notes / str(report.seed))


def test_one_seed_is_one_story_to_the_last_byte() -> None:
    first, second = simulate(7), simulate(7)
    assert first.events > 50
    assert first.digest == second.digest
    assert first.digest != simulate(8).digest
    # Told or untold, and whatever order a process gives to its sets.
    assert simulate(7, is_told=True).digest == first.digest
    assert _digest_elsewhere(hash_seed="4711") == first.digest


def _digest_elsewhere(*, hash_seed: str) -> str:
    program = "from mulligan.testing.simulation import simulate; print(simulate(7).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    return answer.stdout.strip()


def test_a_story_is_told_by_command() -> None:
    command = [sys.executable, "-m", "mulligan.testing.simulation", "7", "--trace", "--hours", "0.05"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "a shift of" in answer.stdout
    assert "1 worlds" in answer.stdout
    assert "0 broken promises" in answer.stdout


def test_everything_that_should_happen_sometimes_did(notes: Path) -> None:
    """What other test processes have run already is not run again."""
    reached = Reached()
    for seed in SEEDS:
        if not (notes / str(seed)).exists():
            note(simulate(seed), notes)
        reached.update((notes / str(seed)).read_text().splitlines())
    assert reached.missing == [], f"never reached, of {len(SOMETIMES)}"
