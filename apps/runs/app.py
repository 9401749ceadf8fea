"""The verifier: its tasks, its policy and its rules. Retries, leases and states are the engine's."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import Connection

from apps.pages.database import Database
from apps.runs.claim import Claim, Unreadable
from apps.runs.configuration import Configuration, ConfigurationFile, RetryConfiguration, to_policies
from apps.runs.discovery import Discovery, Found
from apps.runs.environments import NoRules
from apps.runs.leaderboard_client import (
    FAILURES,
    BadListing,
    LeaderboardClient,
    TooLarge,
    is_asked_to_wait,
    open_client,
)
from apps.runs.replay import LARGEST_REPLAY, BadReplay, read_replay, verify_claim
from apps.runs.tables import RunTables
from mulligan import App, ErrorCode, Exponential, FinalError, Job, NotAllowed, RetryPolicy, Rule, attempt

TICK = timedelta(seconds=5)
TICKS = "*/5 * * * * *"
DUTIES = "default"

CATALOGUE = (
    ErrorCode("CATEGORY_UNKNOWN", "No rules are installed for this category.", "final"),
    ErrorCode("LISTING_INVALID", "The leaderboard's list of runs cannot be read. It will be asked again.", "retryable"),
    ErrorCode("REPLAY_GONE", "The leaderboard has no replay of this run.", "final"),
    ErrorCode("REPLAY_INVALID", "The replay cannot be read.", "final"),
    ErrorCode("REPLAY_TOO_LARGE", "The replay is too large.", "final"),
    ErrorCode("RUN_INVALID", "The leaderboard's record of this run cannot be read.", "final"),
)
RULES = (
    Rule("REPLAY_TOO_LARGE", "final", when=TooLarge, kind="verify"),
    Rule("REPLAY_INVALID", "final", when=BadReplay, kind="verify"),
    Rule("REPLAY_GONE", "final", status=(404, 410), kind="verify"),
    Rule("CATEGORY_UNKNOWN", "final", when=NoRules, kind="verify"),
    Rule("LISTING_INVALID", "retryable", when=(BadListing, TooLarge), kind="poll"),
)
# A poll that fails is repeated soon; when it has failed for good, the next tick starts another.
POLL = RetryPolicy(8, Exponential("5s", cap="1m", jitter=None))


@dataclass(frozen=True, slots=True)
class Verifier:
    """The parts of the application."""

    app: App
    database: Database
    tables: RunTables
    configuration: ConfigurationFile

    @property
    def queues(self) -> tuple[str, ...]:
        """What a worker takes: the queues of the allowed categories, and that of the polls."""
        return (DUTIES, *map(queue_of, self.configuration.current.categories))

    def create(self) -> None:
        self.app.migrate()
        self.database.create()

    def close(self) -> None:
        self.app.close()
        self.database.close()


def queue_of(category: str) -> str:
    return f"category:{category}"


@contextmanager
def open_verifier(url: str, configuration: Path, *, ticks: str = TICKS) -> Iterator[Verifier]:
    """Raises BadConfiguration. The engine reads the retry keys from a file that follows the configuration."""
    with tempfile.TemporaryDirectory(prefix="runs-") as folder:
        policies = Path(folder) / "policies.yaml"
        file = ConfigurationFile(configuration, lambda changed: _publish(changed, policies))
        verifier = build_verifier(url, file, policies=policies, ticks=ticks)
        try:
            yield verifier
        finally:
            verifier.close()


def _publish(configuration: Configuration, policies: Path) -> None:
    new = policies.with_suffix(".new")
    new.write_text(json.dumps(to_policies(configuration), indent=2), "utf-8")
    new.replace(policies)


def build_verifier(url: str, configuration: ConfigurationFile, *, policies: Path, ticks: str) -> Verifier:
    app = App(url, catalogue=CATALOGUE, rules=RULES, lifespan=lifespan, policies=policies)
    database = Database(url)
    verifier = Verifier(app, database, RunTables(database.metadata), configuration)
    register_tasks(verifier, ticks)
    return verifier


@contextmanager
def lifespan(_: App) -> Iterator[httpx2.Client]:
    with open_client() as client:
        yield client


def refuse_unreadable(job: Job[Any]) -> None:
    if job.was_rejected:
        raise NotAllowed("the leaderboard's record of this run cannot be read", code="RUN_INVALID", status=409)


def register_tasks(verifier: Verifier, ticks: str) -> None:
    app, database, tables = verifier.app, verifier.database, verifier.tables
    configuration = verifier.configuration

    @app.task(retry=RetryConfiguration().policy(), timeout="5m", can_retry=refuse_unreadable)
    def verify(run: str) -> str:
        """Fetch the replay of a run, play it, and keep what was found."""
        with database.read() as connection:
            claim = tables.claim(connection, run)
            record = tables.record(connection, claim)
        leaderboard = LeaderboardClient(attempt().resources, configuration.current)
        replay = read_replay(leaderboard.fetch_replay(run, LARGEST_REPLAY))
        finding = verify_claim(claim, replay, record)
        with database.transaction() as connection:
            tables.keep(connection, claim, finding, app.now())
        return finding.outcome.value

    def enqueue(runs: Sequence[Found], connection: Connection) -> Sequence[Job[Any]]:
        claims = [run for run in runs if isinstance(run, Claim)]
        # New runs and due retries compete by the date of their submission alone.
        bound = [
            verify.options(queue=queue_of(run.category), submitted_at=run.submitted_at).bind(run.id) for run in claims
        ]
        jobs = iter(app.enqueue_many(bound, connection=connection))
        return [next(jobs) if isinstance(run, Claim) else reject(run, connection) for run in runs]

    def reject(run: Unreadable, connection: Connection) -> Job[Any]:
        options = verify.options(queue=queue_of(run.category), connection=connection)
        return options.reject(FinalError(run.problem, code="RUN_INVALID"), run.id)

    discovery = Discovery(database, tables, enqueue, app.now)

    @app.task(retry=POLL, timeout="5m")
    def poll() -> int:
        """Store the new runs of the allowed categories, and return their number. A category that fails keeps no other
        from being polled."""
        allowed, stored, failures = configuration.current, 0, list[Exception]()
        leaderboard = LeaderboardClient(attempt().resources, allowed)
        for category in allowed.categories:
            try:
                stored += discovery.poll(leaderboard, category)
            except FAILURES as failure:
                if is_asked_to_wait(failure):
                    raise
                failures.append(failure)
        if failures:
            raise failures[0]
        return stored

    @app.cron(ticks, name="poll")
    @app.task(retry=RetryPolicy(1))
    def tick() -> None:
        """Start a poll, unless one runs, waits for as long as the leaderboard asked, or began within the interval."""
        interval = timedelta(seconds=configuration.current.poll_interval)
        # Half a tick less, because this tick may have come a little sooner than the one before it.
        poll.options(dedupe="poll", dedupe_for=interval - TICK / 2).enqueue()
