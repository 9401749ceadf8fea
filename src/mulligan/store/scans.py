"""Scans of the indexes that hold all jobs of a state."""

from typing import NamedTuple

from mulligan.lifecycle import State


class Scan(NamedTuple):
    """Rows of one index, in its order. If they are all in one state, `state` names it."""

    where: str
    order: str
    state: State | None = None


def scans_of(state: State, since: str = "") -> list[Scan]:
    """The indexes that hold all jobs of a state."""
    match state:
        case State.WAITING:
            return [
                Scan("state = 'waiting' AND gate IS NULL", "due_at", state),
                Scan("state = 'waiting' AND gate IS NOT NULL", "gate, priority, rank", state),
            ]
        case State.QUEUED:
            return [Scan("state = 'queued'", "queue, kind, service, priority, rank, id", state)]
        case State.RUNNING:
            return [Scan("state = 'running'", "leased_by, claim", state)]
        case State.FAILED if not since:
            return [Scan("state = 'failed'", "id DESC", state)]
        case _:
            # The condition of the index is repeated literally, so that SQLite recognises it.
            over = "state IN ('succeeded', 'failed', 'cancelled')"
            return [Scan(f"state = '{state}' AND {over}{since}", "{{over_at}} DESC" if since else "state", state)]
