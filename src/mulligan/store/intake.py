"""Intake: whether the jobs of a client are accepted. A pause refuses new ones; the engine's own jobs always pass.

The insert itself checks, so an enqueue costs no additional statement. Whatever exists already is returned as usual.
"""

from collections.abc import Iterable
from datetime import timedelta

from mulligan.errors import IntakePaused
from mulligan.records.job import NewJob
from mulligan.records.pause import EVERYTHING
from mulligan.store.rows import from_time_or_none, to_json
from mulligan.store.session import Now, Statement, Statements, Steps


def intake_names(jobs: Iterable[NewJob]) -> list[str]:
    """Return the names whose pause refuses these jobs. Those of the engine have none."""
    submitted = [job for job in jobs if job.is_submitted]
    names = {name for job in submitted for name in (job.kind, job.queue)}
    return [EVERYTHING, *sorted(names)] if names else []


def refuse_paused(sql: Statements, names: list[str], now: Now) -> Steps[None]:
    """Raise IntakePaused if a pause refuses jobs with one of these names."""
    if not names:
        return
    for row in (yield Statement(sql["intake_paused"], {"intake": to_json(names), "now": now})):
        until = row["until"]
        left = None if until is None else timedelta(microseconds=until - row["now"])
        raise IntakePaused(row["name"], until=from_time_or_none(until), reason=row["reason"], retry_after=left)
