"""Worlds from seeds: no promise is broken in any of them, and together they get everywhere.

Most worlds are the same in every run, a few are new each time. `MULLIGAN_SEEDS=1000-1999` or `MULLIGAN_SEEDS=17` runs
others than those of every change, `MULLIGAN_WORLD_SEED` repeats the new ones of a run, which prints it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator import SOMETIMES, Reached, Report, simulate

GROUP = 5
# So many reach everything.
ENOUGH = 60
NEW = 4
HOURS_AFTER = 0.01


def seeds() -> list[int]:
    first, _, last = os.environ.get("MULLIGAN_SEEDS", f"0-{ENOUGH - 1}").partition("-")
    return list(range(int(first), int(last or first) + 1))


# Seeds that once broke a promise, by what they found and after how many seconds. Each cause by itself is in
# `test_oracle.py`, in the stores' suite or among the tests of the worker: a world becomes another story as soon as the
# engine does things in another order.
ONCE_BROKEN: dict[str, dict[int, float]] = {
    "a retry was cancelled instead, and charged to its owner": {40372: 2107.9, 40502: 2362.2, 50701: 2415.5},
    "a rate was forgotten while the clock was ahead": {40478: 25.0},
    "a job was run manually beyond the limit of losses": {40574: 2290.8, 40892: 3605.1},
    "a worker reclaimed before its first claim arrived": {40809: 789.9, 50850: 2812.6},
    "a refused job was to run after a lost reply": {40885: 2244.6},
    "a job went with its batch in the claim that let it in": {51010: 738.1},
    "a job that waited for a slot was not cancelled": {468727780: 610.0},
    "an enqueue came after its batch was published": {468731427: 106.4},
    "the way of a slow reply began when its process went on": {468733349: 1991.0},
    "a claim came after its worker had stopped waiting": {900064: 1316.1, 900179: 48.9},
    "the clock stepped while a reclaimer was stopped in the middle of a pass": {962212595: 3294.6},
    "a released key was released again by a repeated request": {3732981719: 105.5},
    "a health check seemed to come after the failures that followed it": {171427404: 2193.3},
}
SEEDS = seeds()
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
FIRST_NEW = int(os.environ["MULLIGAN_WORLD_SEED"])
GROUPS = [SEEDS[begin : begin + GROUP] for begin in range(0, len(SEEDS), GROUP)]


def told(report: Report, *, hours: float = 1.0) -> str:
    """The end of the story of a seed that failed, and how to hear the whole."""
    story = simulate(report.seed, hours=hours, is_told=True).story
    replay = f"make simulate SEED={report.seed} ARGS='--hours {hours} --trace'"
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


@pytest.mark.parametrize("found", ONCE_BROKEN)
def test_what_once_broke_a_promise_does_not_break_it_again(found: str) -> None:
    for seed, seconds in ONCE_BROKEN[found].items():
        hours = seconds / 3600 + HOURS_AFTER
        report = simulate(seed, hours=hours)
        assert report.broken is None, told(report, hours=hours)


@pytest.mark.parametrize("number", range(NEW))
def test_no_promise_is_broken_in_a_world_that_is_new(number: int) -> None:
    report = simulate(FIRST_NEW + number)
    assert report.broken is None, told(report)


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
    program = "from simulator import simulate; print(simulate(7).digest)"
    environment = {**ENVIRONMENT, "PYTHONHASHSEED": hash_seed}
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    return answer.stdout.strip()


def test_the_command_prints_the_trace_of_a_seed() -> None:
    command = [sys.executable, "-m", "simulator", "7", "--trace", "--hours", "0.05"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert "a shift of" in answer.stdout
    assert "1 worlds" in answer.stdout
    assert "0 broken promises" in answer.stdout


@pytest.mark.skipif(
    len(SEEDS) < ENOUGH, reason="only many worlds together reach every point; run without MULLIGAN_SEEDS"
)
def test_everything_that_should_happen_sometimes_did(notes: Path) -> None:
    """What other test processes have run already is not run again."""
    reached = Reached()
    for seed in SEEDS:
        if not (notes / str(seed)).exists():
            note(simulate(seed), notes)
        reached.update((notes / str(seed)).read_text().splitlines())
    assert reached.missing == [], f"never reached, of {len(SOMETIMES)}"
