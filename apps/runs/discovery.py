"""Finds new runs: each is stored once, in one transaction with the job that verifies it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from apps.pages.database import Database
from apps.runs.claim import Claim, Unreadable, read_claim
from apps.runs.leaderboard_client import PAGE, LeaderboardClient, Listing
from apps.runs.tables import RunTables
from mulligan import Job

# Of one poll and category; the next poll goes on.
MOST_PAGES = 100

Found = Claim | Unreadable
Enqueue = Callable[[Sequence[Found], Connection], Sequence[Job[Any]]]


@dataclass(frozen=True, slots=True)
class Discovery:
    """`enqueue` stores the jobs of new runs in the same order."""

    database: Database
    tables: RunTables
    enqueue: Enqueue
    now: Callable[[], datetime]

    def poll(self, leaderboard: LeaderboardClient, category: str) -> int:
        """Store the new runs of a category and return their number. Raises the errors of the leaderboard."""
        stored = 0
        for _ in range(MOST_PAGES):
            with self.database.read() as connection:
                position = self.tables.position(connection, category)
            listing = leaderboard.list_runs(category, position)
            stored += self.store(category, listing)
            if len(listing.runs) < PAGE:
                break
        return stored

    def store(self, category: str, listing: Listing) -> int:
        """Store the runs, their jobs, and how far the list was read: all or nothing."""
        now = self.now()
        # The leaderboard may send what it was not asked for.
        found = {run.id: run for run in map(read_claim, listing.runs) if run is not None and run.category == category}
        with self.database.transaction() as connection:
            known = self.tables.known(connection, found.keys())
            new = [run for run in found.values() if run.id not in known]
            jobs = self.enqueue(new, connection)
            rows = [_to_row(run, job, now) for run, job in zip(new, jobs, strict=True)]
            self.tables.add(connection, rows)
            self.tables.move(connection, category, listing.position)
        return len(new)


def _to_row(run: Found, job: Job[Any], now: datetime) -> dict[str, Any]:
    row = {"id": run.id, "category": run.category, "job": job.id, "discovered_at": now}
    match run:
        case Claim():
            claimed = {"player": run.player, "environment": run.environment, "seed": run.seed, "score": run.score}
            return {**row, **claimed, "submitted_at": run.submitted_at}
        case Unreadable():
            unknown = dict.fromkeys(("player", "environment", "seed", "score"))
            return {**row, **unknown, "submitted_at": row["discovered_at"]}
