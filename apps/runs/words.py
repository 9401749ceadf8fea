"""The words of the page, derived from the states of the engine by one table."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from apps.runs.configuration import Configuration
from apps.runs.tables import Run
from mulligan import Job, State


class Word(StrEnum):
    DISCOVERED = "Discovered"
    PROCESSING = "Processing"
    PASSED = "Passed"
    NEEDS_REVIEW = "NeedsReview"
    FAILED = "Failed"
    ERROR = "Error"


# A run that was verified is called by what was found; one that waits is an Error once an attempt of it went wrong.
WORDS = {
    State.WAITING: Word.DISCOVERED,
    State.QUEUED: Word.DISCOVERED,
    State.RUNNING: Word.PROCESSING,
    State.FAILED: Word.ERROR,
    State.CANCELLED: Word.ERROR,
}
GONE = "its history was deleted by the retention of jobs"
PENDING = (State.WAITING, State.QUEUED)


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run as people see it. What concerns retries is empty once the run is verified; while an attempt is under way,
    only their number is kept."""

    run: Run
    job: Job[Any] | None
    word: Word
    is_allowed: bool
    retry_count: int = 0
    max_retries: int = 0
    next_retry_at: datetime | None = None
    error_class: str | None = None
    error_code: str | None = None
    error: str | None = None

    @property
    def is_stranded(self) -> bool:
        """It waits, and no worker takes it: its category is no longer allowed."""
        return not self.is_allowed and self.job is not None and self.job.state in PENDING

    @property
    def is_asked_to_wait(self) -> bool:
        """The leaderboard said how long: no attempt is used up."""
        return self.job is not None and self.job.waiting_for == "rate limit"

    @property
    def can_be_retried(self) -> bool:
        return self.word is Word.ERROR and self.job is not None and not self.job.was_rejected


def word_of(run: Run, job: Job[Any] | None) -> Word:
    """`job` is None if the engine has deleted it by now."""
    if job is None or job.state is State.SUCCEEDED:
        return Word(run.finding.outcome.value) if run.finding is not None else Word.ERROR
    if job.state in PENDING and job.last_code is not None:
        return Word.ERROR
    return WORDS[job.state]


def describe(run: Run, job: Job[Any] | None, configuration: Configuration) -> ShownRun:
    word, is_allowed = word_of(run, job), configuration.allows(run.category)
    if job is None or word not in (Word.ERROR, Word.PROCESSING):
        return ShownRun(run, job, word, is_allowed)
    if word is Word.PROCESSING:
        return ShownRun(run, job, word, is_allowed, retry_count=job.retry_count, max_retries=job.max_retries)
    failed = job.state is State.FAILED
    return ShownRun(
        run,
        job,
        word,
        is_allowed,
        retry_count=job.retry_count,
        max_retries=job.max_retries,
        next_retry_at=job.due_at if job.state in PENDING else None,
        error_class=job.error_class if failed else job.last_class,
        error_code=job.error_code if failed else job.last_code,
        error=job.error_message if failed else job.last_message,
    )
