"""A leaderboard with players: runs arrive now and then, some cheated, and some answers fail."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apps.runs.environments import ENVIRONMENTS
from apps.runs.leaderboard.faults import Fault
from apps.runs.leaderboard.players import CHEATS, Submission, play_run, use_old_version
from apps.runs.leaderboard.server import Board
from apps.runs.leaderboard.serving import serve_leaderboard

AT_FIRST = 40
EVERY_SECONDS = 3.0
FAULTY = 0.1
FAULTS = (
    Fault(kind="broken"),
    Fault(kind="rate_limited", retry_after="20"),
    Fault(kind="rate_limited"),
    Fault(kind="silent"),
    Fault(kind="garbage"),
)
CONFIGURATION = """\
# The configuration of the run verifier. It is read again when it changes.
leaderboard: http://127.0.0.1:{port}
# Runs of other categories are not polled, and not claimed if they are stored.
categories: [cartpole, frozen-lake, mountain-car, taxi]
# Seconds between two polls, and how long one answer may take.
poll_interval: 5
timeout: 5
retry:
  max_attempts: 8
  initial_backoff: 60s
  backoff_multiplier: 2.0
  max_backoff: 3600s
"""


class Players:
    """Submit runs, one after another."""

    def __init__(self, board: Board, seed: int = 0) -> None:
        self._board, self._chance, self._number = board, random.Random(seed), 0  # noqa: S311

    def submit(self, submitted_at: datetime) -> None:
        self._number += 1
        run, category = f"run-{self._number:05}", self._chance.choice([*ENVIRONMENTS])
        submission = play_run(run, category, seed=self._chance.randrange(10**6), submitted_at=submitted_at)
        self._board.submit(self._change(submission))
        if self._chance.random() < FAULTY:
            fault = self._chance.choice(FAULTS)
            self._board.faults.add(Fault(kind=fault.kind, run=run, retry_after=fault.retry_after))

    def _change(self, honest: Submission) -> Submission:
        drawn = self._chance.random()
        if drawn < 0.15:
            return self._chance.choice(CHEATS)(honest)
        return use_old_version(honest) if drawn < 0.25 else honest


@contextmanager
def run_demo_leaderboard(port: int) -> Iterator[str]:
    """Serve it until the end of the block."""
    board, stop = Board(), threading.Event()
    players, now = Players(board), datetime.now(UTC)
    for age in range(AT_FIRST, 0, -1):
        players.submit(now - timedelta(minutes=7 * age))
    thread = threading.Thread(target=_go_on, args=(players, stop))
    thread.start()
    try:
        with serve_leaderboard(board, port=port) as address:
            yield address
    finally:
        stop.set()
        thread.join()


def _go_on(players: Players, stop: threading.Event) -> None:
    while not stop.wait(EVERY_SECONDS):
        players.submit(datetime.now(UTC))


def write_configuration(path: Path, port: int) -> bool:
    """Write a configuration for this leaderboard, unless there is one."""
    if path.exists():
        return False
    path.write_text(CONFIGURATION.format(port=port), "utf-8")
    return True
