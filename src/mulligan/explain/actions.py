"""What a person can do about a job now: its legal moves, and what ends a hold."""

import shlex
from dataclasses import replace
from typing import Any

from mulligan.explain.explanation import Action
from mulligan.lifecycle import Move, State, possible_verbs
from mulligan.records.job import Job

_MOVES = {
    Move.MANUAL_RETRY: ("To retry it with all counters reset", "mulligan jobs retry {id}"),
    Move.RUN_NOW: ("To run it now with unchanged counters", "mulligan jobs run-now {id}"),
    Move.MANUAL_CANCEL: ("To cancel it", "mulligan jobs cancel {id}"),
    Move.MANUAL_SNOOZE: ("To postpone it", "mulligan jobs snooze {id} 1h"),
}
TAKE_OVER = ("To take it from its worker and retry it", "mulligan jobs retry {id}")

PROCESS_STUCK = Action(
    code="process-stuck",
    what="job",
    name="",
    purpose="To settle all stuck jobs as timed out",
    command="mulligan jobs process-stuck",
)
START_WORKER = Action(
    code="start", what="worker", name="", purpose="To start one", command="mulligan worker MODULE:APP"
)
# An owner may do these; the others concern all jobs.
OF_OWNERS = ("job", "batch")


def moves_of(job: Job[Any], *, is_stuck: bool) -> tuple[Action, ...]:
    """The manual moves that the table of moves allows. A stuck job can also be taken from its worker."""
    possible = possible_verbs(job.state)
    moves = tuple(_move(move.verb or "", job, words) for move, words in _MOVES.items() if move.verb in possible)
    if job.state is State.RUNNING and is_stuck:
        return (_move("retry", job, TAKE_OVER), PROCESS_STUCK, *moves)
    return moves


def _move(verb: str, job: Job[Any], words: tuple[str, str]) -> Action:
    purpose, command = words
    return Action(code=verb, what="job", name=job.id, purpose=purpose, command=command.format(id=job.id))


def resume(what: str, name: str) -> Action:
    command = f"mulligan duties resume {name}" if what == "duty" else f"mulligan resume --{what} {shlex.quote(name)}"
    return Action(code="resume", what=what, name=name, purpose="To resume earlier", command=command)


def change_service(code: str, name: str, purpose: str) -> Action:
    command = f"mulligan services {code} {shlex.quote(name)}"
    return Action(code=code, what="service", name=name, purpose=purpose, command=command)


def publish(batch_id: str) -> Action:
    command = f"mulligan batches publish {batch_id}"
    return Action(code="publish", what="batch", name=batch_id, purpose="To publish it", command=command)


def for_owner(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Those of an owner's own job or batch, without commands."""
    own = (action for action in actions if action.what in OF_OWNERS and action.name)
    return tuple(replace(action, command=None) for action in own)
