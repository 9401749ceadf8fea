"""What the command line prints and does: `status` and `retry`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.runs.app import Verifier
from apps.runs.board import KIND, RunBoard
from apps.runs.words import GONE, ShownRun, Word
from mulligan import IllegalMove, JobFilter, JobNotFound, NotAllowed, State

NOT_FOUND = 4
NOT_POSSIBLE = 5
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    exit_code: int = 0


def status(verifier: Verifier, word: Word, *, limit: int, as_json: bool) -> str:
    board = RunBoard(verifier)
    words, categories = board.words(), board.categories()
    runs = board.list_runs(word, limit=limit).runs
    stranded = {each.name: each.pending for each in categories if not each.is_allowed and each.pending}
    if as_json:
        numbers = {each.value: number.value for each, number in words.items()}
        return json.dumps({"words": numbers, "no_longer_allowed": stranded, "runs": [_document(run) for run in runs]})
    lines = [f"{each.value:<12} {number!s:>8}" for each, number in words.items()]
    lines += [f"{name}: {number:,} not claimed, the category is no longer allowed" for name, number in stranded.items()]
    return "\n".join([*lines, *(["", *_table(runs)] if runs else [])])


def _document(shown: ShownRun) -> dict[str, Any]:
    finding = shown.run.finding
    return {
        "id": shown.run.id,
        "category": shown.run.category,
        "is_allowed": shown.is_allowed,
        "status": shown.word.value,
        "submitted_at": shown.run.submitted_at.isoformat(),
        "retry_count": shown.retry_count,
        "next_retry_at": _iso(shown.next_retry_at),
        "error_class": shown.error_class,
        "error_code": shown.error_code,
        "error": shown.error,
        "reason": finding.reason if finding and shown.error_class is None else None,
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _table(runs: Sequence[ShownRun]) -> list[str]:
    rows = [("Run", "Category", "State", "Class", "Code", "Retries", "Next retry")]
    rows += [
        (
            shown.run.id,
            shown.run.category,
            shown.word.value,
            shown.error_class or "",
            shown.error_code or "",
            f"{shown.retry_count}/{shown.max_retries}" if shown.error_class or shown.retry_count else "",
            _when(shown),
        )
        for shown in runs
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _when(shown: ShownRun) -> str:
    if shown.is_stranded:
        return "category no longer allowed"
    return f"{shown.next_retry_at:%Y-%m-%d %H:%M:%S}Z" if shown.next_retry_at else ""


def failed_runs(verifier: Verifier, error_class: str | None) -> list[str]:
    """The runs that failed for good, without those whose record cannot be read: these are never retried."""
    wanted = JobFilter(kind=KIND, state=State.FAILED, error_class=error_class)
    found, cursor = list[str](), None
    while True:
        page = verifier.app.jobs(wanted, limit=PAGE, cursor=cursor)
        jobs = [job.id for job in page.jobs if not job.was_rejected]
        with verifier.database.read() as connection:
            found += [run.id for run in verifier.tables.of_jobs(connection, jobs).values()]
        cursor = page.cursor
        if cursor is None:
            return found


def retry(verifier: Verifier, run: str, *, actor: str, reason: str | None) -> Answer:
    shown = RunBoard(verifier).find(run)
    if shown is None:
        return Answer(f"There is no run {run!r}.", NOT_FOUND)
    try:
        verifier.app.retry(shown.run.job, actor=actor, reason=reason)
    except JobNotFound:
        return Answer(f"{run} is not retried: {GONE}", NOT_POSSIBLE)
    except (IllegalMove, NotAllowed) as refusal:
        return Answer(f"{run} is not retried: {refusal}", NOT_POSSIBLE)
    rest = "" if shown.is_allowed else " It runs when its category is allowed again."
    return Answer(f"Retry queued for {run}.{rest}")
