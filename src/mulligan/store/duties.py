"""Runs of duties: the last one of each duty by each worker."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from mulligan.lifecycle import DUTY_DONE
from mulligan.records.duty import DutyOverview, DutyRun
from mulligan.records.schedule import SEEN_EVERY
from mulligan.store.events import event_values
from mulligan.store.rows import Record, from_json, to_duration, to_json, to_record
from mulligan.store.session import Session

# After the worker is gone. It is useful to know for a while which worker ran a duty last.
RUNS_KEPT = timedelta(days=1)

# The store knows whether these have anything to do.
ASKED = ("expire", "redrive")
CHORE_VALUES = {"seen_every": to_duration(SEEN_EVERY)}


class DutyOperations:
    def find_chores(self, session: Session) -> DutyOverview:
        (row,) = session.rows("duty_overview", CHORE_VALUES)
        return to_chores(row)

    def record(self, session: Session, runs: Sequence[DutyRun]) -> None:
        session.rows("duty_runs_write", {"rounds": to_json([_run_values(run) for run in runs])})
        session.rows("duty_runs_forget", {"kept": to_duration(RUNS_KEPT)})
        for run in runs:
            if run.request is not None:
                session.rows("event", _run_event(run))

    def list_all(self, session: Session) -> list[DutyRun]:
        rows = session.rows("duty_runs")
        return [to_run(row) for row in rows]


def _run_values(run: DutyRun) -> dict[str, Any]:
    return {
        "duty": run.duty,
        "worker": run.worker,
        "took": round(run.seconds * 1e6),
        "did": run.did,
        "interval": None if run.interval is None else to_duration(run.interval),
        "batch": run.limit,
        "actor": run.actor,
        "reason": run.reason,
        "ago": to_duration(run.ago),
    }


def _run_event(run: DutyRun) -> dict[str, Any]:
    data = {"what": "duty", "name": run.duty, "did": run.did, "seconds": round(run.seconds, 6)}
    if run.reason:
        data["reason"] = run.reason
    return event_values(DUTY_DONE, request=run.request, actor=run.actor, data=data)


def to_chores(row: Record) -> DutyOverview:
    idle = frozenset(duty for duty in ASKED if not row[duty])
    return DutyOverview(frozenset(from_json(row["paused"])), idle, has_ticks=bool(row["has_ticks"]))


def to_run(row: Record) -> DutyRun:
    return to_record(DutyRun, row, seconds=row["took"] / 1e6, limit=row["batch"])
