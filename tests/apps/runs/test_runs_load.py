"""A load of runs, a tenth of them with faults: at the end every run is accounted for."""

import os
import random
from collections import Counter
from contextlib import suppress

from apps.runs.board import RunBoard
from apps.runs.leaderboard import players
from apps.runs.leaderboard.players import Submission
from apps.runs.outcome import Outcome
from apps.runs.tables import Run
from apps.runs.words import Word
from apps.runs.working import run_worker
from msgspec.structs import replace
from runs_world import HUNDREDTH, World, honest

from live import eventually
from mulligan import JobFailed, JobFilter, State

RUNS = 10_000 if "MULLIGAN_SOAK" in os.environ else 300
SECONDS = 3_600 if "MULLIGAN_SOAK" in os.environ else 120
CATEGORIES = ("frozen-lake", "taxi", "cartpole")
FAULTS = ("broken", "rate_limited", "hinted", "cut", "garbage", "endless", "lasting")


def _submissions(chance: random.Random) -> list[tuple[Submission, str]]:
    """Runs in any order of submission, with the outcome that each must have: honest ones hold, cheats do not."""
    # Played once each: verifying is what is tested.
    played = {(category, seed): honest("a", category, seed=seed) for category in CATEGORIES for seed in range(5)}
    found = []
    for number in range(RUNS):
        base = played[chance.choice(CATEGORIES), chance.randrange(5)]
        day = honest("a", day=chance.random() * 1_000).claim.submitted_at
        run = replace(base, claim=replace(base.claim, id=f"run-{number}", submitted_at=day))
        found.append((players.inflate(run), "Failed") if chance.random() < 0.2 else (run, "held"))
    return found


def test_r1_a_load_with_faults_leaves_every_run_accounted_for(world: World) -> None:
    chance = random.Random(os.environ.get("MULLIGAN_SEED", "1"))
    world.configure(retry={**HUNDREDTH, "max_attempts": 3, "initial_backoff": 0.1}, timeout=5)
    expected = dict[str, str]()
    for submission, outcome in _submissions(chance):
        run = submission.claim.id
        world.submit(submission)
        fault = chance.choice(FAULTS) if chance.random() < 0.1 else None
        expected[run] = {"garbage": "Error", "endless": "Error", "lasting": "Error"}.get(fault or "", outcome)
        if fault == "hinted":
            world.break_answers("rate_limited", run=run, retry_after="1")
        elif fault == "lasting":
            world.break_answers("broken", run=run, times=100)
        elif fault is not None:
            world.break_answers(fault, run=run)
    with run_worker(world.verifier, concurrency=4):
        world.poll()
        eventually(lambda: world.number_stored() == RUNS, SECONDS)
        _await_all(world)
    states = {exported.job.id: exported.job.state for exported in world.app.export(JobFilter(kind="verify"))}
    assert len(states) == RUNS
    assert {run: _end(world.run(run), states) for run in world.stored()} == expected
    numbers = {word: number.value for word, number in RunBoard(world.verifier).words().items()}
    assert numbers[Word.ERROR] == Counter(expected.values())["Error"]
    assert numbers[Word.FAILED] == Counter(expected.values())["Failed"]
    assert sum(numbers.values()) == RUNS


def _await_all(world: World) -> None:
    """Wait for one job after the other: to count them all again and again would be a load of its own."""
    unfinished = JobFilter(kind="verify", state=["waiting", "queued", "running"])
    while jobs := world.app.jobs(unfinished, limit=1).jobs:
        with suppress(JobFailed):
            world.app.wait(jobs[0].id, timeout=SECONDS)


def _end(run: Run, states: dict[str, State]) -> str:
    if states[run.job] is State.FAILED:
        assert run.finding is None
        return "Error"
    assert states[run.job] is State.SUCCEEDED and run.finding is not None
    return "Failed" if run.finding.outcome is Outcome.FAILED else "held"
