"""What the page and the command line show: numbers by word, and lists of runs."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.runs.app import Verifier, queue_of
from apps.runs.claim import is_run_id
from apps.runs.outcome import Outcome
from apps.runs.tables import EPOCH, MICROSECOND, Run
from apps.runs.words import ShownRun, Word, describe
from mulligan import Job, JobFilter, State

KIND = "verify"
LIVE = (State.WAITING, State.QUEUED, State.RUNNING)
PAGE = 50
# A list by word looks at this many jobs at most; the next page goes on.
MOST_EXAMINED = 1_000

# Where the runs of a word are to be found.
STATES = {
    Word.DISCOVERED: (State.QUEUED, State.WAITING),
    Word.PROCESSING: (State.RUNNING,),
    Word.ERROR: (State.FAILED, State.CANCELLED, State.WAITING, State.QUEUED),
}


class BadCursor(Exception):
    """The cursor is not one of this list."""


@dataclass(frozen=True, slots=True)
class Number:
    value: int
    at_least: bool = False

    def __str__(self) -> str:
        return f"{self.value:,}{'+' if self.at_least else ''}"


@dataclass(frozen=True, slots=True)
class CategoryRow:
    name: str
    is_allowed: bool
    pending: int
    """Not verified yet."""
    errors: int
    """Failed for good."""
    outcomes: dict[Outcome, int]


@dataclass(frozen=True, slots=True)
class FailingPoll:
    message: str
    code: str
    due_at: datetime | None
    """When it is tried again. One that failed for good is followed by another poll instead."""


@dataclass(frozen=True, slots=True)
class RunPage:
    runs: list[ShownRun]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class RunBoard:
    verifier: Verifier

    # Numbers

    def words(self) -> dict[Word, Number]:
        """How many runs are called by each word. The engine counts up to 10,000 of a state."""
        app = self.verifier.app
        states = app.counts(JobFilter(kind=KIND))
        again = app.counts(JobFilter(kind=KIND, state=State.QUEUED), by="last_code")
        found = {State(name): number for name, number in states.groups.items()}
        with self.verifier.database.read() as connection:
            outcomes = self.verifier.tables.outcomes(connection)
        discovered = found.get(State.QUEUED, 0) - again.total
        errors = again.total + sum(found.get(state, 0) for state in (State.WAITING, State.FAILED, State.CANCELLED))
        return {
            Word.DISCOVERED: Number(max(0, discovered), states.at_least),
            Word.PROCESSING: Number(found.get(State.RUNNING, 0)),
            **{Word(outcome.value): Number(outcomes.get(outcome, 0)) for outcome in Outcome},
            Word.ERROR: Number(errors, states.at_least),
        }

    def categories(self) -> list[CategoryRow]:
        """The allowed ones, and all others that have runs."""
        configuration = self.verifier.configuration.current
        pending = self._by_queue(*LIVE)
        errors = self._by_queue(State.FAILED, State.CANCELLED)
        with self.verifier.database.read() as connection:
            tables = self.verifier.tables
            known = [*dict.fromkeys([*configuration.categories, *sorted(tables.categories(connection))])]
            return [
                CategoryRow(
                    name,
                    configuration.allows(name),
                    pending.get(queue_of(name), 0),
                    errors.get(queue_of(name), 0),
                    tables.outcomes(connection, name),
                )
                for name in known
            ]

    def _by_queue(self, *states: State) -> dict[str, int]:
        return dict(self.verifier.app.counts(JobFilter(kind=KIND, state=states), by="queue").groups)

    def verified_within(self, *spans: timedelta) -> list[int]:
        """How many runs were verified in each of the last spans of time."""
        now = datetime.now(UTC)
        with self.verifier.database.read() as connection:
            return [self.verifier.tables.verified_since(connection, now - span) for span in spans]

    def failing_poll(self) -> FailingPoll | None:
        """The last poll that was tried, if the leaderboard failed or asked for a break."""
        # A poll that was just started says nothing yet: the one before it does. There is one at a time.
        polls = self.verifier.app.jobs(JobFilter(kind="poll"), limit=2).jobs
        return next((_failing(poll) for poll in polls if _was_tried(poll)), None)

    # Lists

    def list_runs(self, word: Word | None = None, *, cursor: str | None = None, limit: int = PAGE) -> RunPage:
        """Newest first. Raises BadCursor."""
        if word in STATES:
            return self._by_state(word, cursor, limit)
        return self._by_submission(word, cursor, limit)

    def _by_submission(self, word: Word | None, cursor: str | None, limit: int) -> RunPage:
        outcome = None if word is None else Outcome(word.value)
        with self.verifier.database.read() as connection:
            runs = self.verifier.tables.newest(connection, limit=limit, outcome=outcome, before=_read_cursor(cursor))
        shown = [each for each in self._describe(runs) if word in (None, each.word)]
        return RunPage(shown, _write_cursor(runs[-1]) if len(runs) == limit else None)

    def _by_state(self, word: Word, cursor: str | None, limit: int) -> RunPage:
        """Most of these states have only runs of the word; a page that has none is followed by another."""
        shown, examined = list[ShownRun](), 0
        while examined < MOST_EXAMINED:
            page, cursor = self._page(word, cursor, limit)
            shown, examined = [*shown, *page], examined + limit
            if cursor is None or len(shown) >= limit:
                break
        return RunPage(shown, cursor)

    def _page(self, word: Word, cursor: str | None, limit: int) -> tuple[list[ShownRun], str | None]:
        page = self.verifier.app.jobs(JobFilter(kind=KIND, state=STATES[word]), limit=limit, cursor=cursor)
        with self.verifier.database.read() as connection:
            runs = self.verifier.tables.of_jobs(connection, [job.id for job in page.jobs])
        configuration = self.verifier.configuration.current
        shown = [describe(runs[job.id], job, configuration) for job in page.jobs if job.id in runs]
        return [each for each in shown if each.word is word], page.cursor

    def _describe(self, runs: list[Run]) -> list[ShownRun]:
        wanted = JobFilter(ids=[run.job for run in runs])
        jobs = {job.id: job for job in self.verifier.app.jobs(wanted, limit=1_000).jobs} if runs else {}
        configuration = self.verifier.configuration.current
        return [describe(run, jobs.get(run.job), configuration) for run in runs]

    def find(self, run: str) -> ShownRun | None:
        with self.verifier.database.read() as connection:
            found = self.verifier.tables.find(connection, run)
        return None if found is None else self._describe([found])[0]


def _was_tried(poll: Job[Any]) -> bool:
    return poll.last_code is not None or poll.state not in LIVE


def _failing(poll: Job[Any]) -> FailingPoll | None:
    if poll.state is State.FAILED:
        return FailingPoll(poll.error_message or "", poll.error_code or "", None)
    if poll.state in LIVE:
        return FailingPoll(poll.last_message or "", poll.last_code or "", poll.due_at)
    return None


def _read_cursor(text: str | None) -> tuple[datetime, str] | None:
    if text is None:
        return None
    moment, _, run = text.partition("~")
    try:
        if not is_run_id(run):
            raise ValueError(run)
        return EPOCH + int(moment) * MICROSECOND, run
    except (ValueError, OverflowError):
        raise BadCursor from None


def _write_cursor(run: Run) -> str:
    return f"{(run.submitted_at - EPOCH) // MICROSECOND}~{run.id}"
