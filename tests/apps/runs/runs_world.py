"""The run verifier, a real leaderboard, and what tests do with both."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from apps.runs.app import Verifier, open_verifier
from apps.runs.leaderboard.faults import Fault
from apps.runs.leaderboard.players import Submission, play_run
from apps.runs.leaderboard.server import Board
from apps.runs.tables import Run

from mulligan import Job

NEVER = "0 0 1 1 *"
DAY = datetime(2024, 1, 1, tzinfo=UTC)
# The numbers of the document, divided by a hundred: for tests with real processes.
HUNDREDTH = {"max_attempts": 8, "initial_backoff": 0.6, "backoff_multiplier": 2.0, "max_backoff": 36}


def honest(run: str, category: str = "frozen-lake", *, seed: int = 1, day: float = 0, **claim: Any) -> Submission:
    return play_run(run, category, seed=seed, submitted_at=DAY + timedelta(days=day), **claim)


class World:
    def __init__(self, verifier: Verifier, board: Board, configuration: Path) -> None:
        self.verifier, self.board, self.file = verifier, board, configuration
        self.app = verifier.app

    def configure(self, **changes: Any) -> None:
        """Change the configuration file, as an operator does: a new file in the place of the old one."""
        content = json.loads(self.file.read_text()) | changes
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(content))
        new.replace(self.file)

    def submit(self, *submissions: Submission) -> None:
        for submission in submissions:
            self.board.submit(submission)

    def break_answers(self, kind: Any, **fields: Any) -> None:
        self.board.faults.add(Fault(kind=kind, **fields))

    def poll(self) -> None:
        self.app.tasks["poll"].options(dedupe="poll").enqueue()

    def verify_all(self, **options: Any) -> None:
        """Poll, and run what is due."""
        self.poll()
        self.app.run_until_idle(timeout="60s", **options)

    def run(self, run: str) -> Run:
        with self.verifier.database.read() as connection:
            found = self.verifier.tables.find(connection, run)
        assert found is not None, f"{run} is not stored"
        return found

    def job(self, run: str) -> Job[Any]:
        return self.app.job(self.run(run).job)

    def outcome(self, run: str) -> str | None:
        finding = self.run(run).finding
        return None if finding is None else finding.outcome.value

    def number_stored(self) -> int:
        with self.verifier.database.read() as connection:
            return sum(self.verifier.tables.categories(connection).values())

    def stored(self) -> list[str]:
        with self.verifier.database.read() as connection:
            runs = self.verifier.tables.newest(connection, limit=100_000)
        return sorted(run.id for run in runs)


@contextmanager
def open_world(url: str, board: Board, address: str, folder: Path, **configuration: Any) -> Iterator[World]:
    file = folder / "runs.yaml"
    categories = ["frozen-lake", "cartpole", "taxi"]
    file.write_text(json.dumps({"leaderboard": address, "categories": categories, **configuration}))
    with open_verifier(url, file, ticks=NEVER) as verifier:
        verifier.create()
        yield World(verifier, board, file)
