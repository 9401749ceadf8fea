"""The oracle checks manual moves: each is made once, and refused only where it is illegal."""

from datetime import timedelta
from typing import TYPE_CHECKING

from mulligan.errors import IllegalMove
from mulligan.lifecycle import Move
from simulator.broken import require
from simulator.promotions import PromotionWatch
from simulator.server import Call, Entry
from simulator.transitions import LEGAL, Transitions

if TYPE_CHECKING:
    from simulator.world import World

MOVES = {
    Move.MANUAL_RETRY: ("job.retry_requested",),
    Move.RUN_NOW: ("job.run_requested",),
    Move.MANUAL_CANCEL: ("job.cancelled", "job.cancel_requested"),
    Move.MANUAL_SNOOZE: ("job.snoozed",),
}


class MoveWatch:
    def __init__(self, world: "World", transitions: Transitions, promotions: PromotionWatch) -> None:
        self._timeline = world.timeline
        self._reached = world.reached.note
        self._transitions = transitions
        self._promotions = promotions
        self._requests: dict[str, None] = {}

    def moved(self, call: Call, entries: list[Entry]) -> None:
        request = call.asked
        if call.error is not None:
            require(not entries, "refused, and written to the log all the same")
            self._refusal(call)
            return
        if request.id in self._requests:
            require(not entries, "a repeated request changed something")
            self._reached("a manual move is repeated")
            return
        require(bool(entries) and entries[0].request == request.id, "a move left no trace in the log")
        self._requests[request.id] = None
        self._made(call, entries[0])
        self._promotions.promoted(call, entries[1:])

    def _refusal(self, call: Call) -> None:
        self._reached("a manual move is refused")
        if not isinstance(call.error, IllegalMove):
            return
        life = self._transitions.lives.by_id[call.asked.job]
        is_legal = any(life.state in LEGAL[event] for event in MOVES[call.asked.move] if event != "job.snoozed")
        if call.asked.move is Move.MANUAL_SNOOZE:
            is_legal = life.state in ("waiting", "queued")
        require(not is_legal, f"{life.name}: {call.asked.move} was refused though it is {life.state}")

    def _made(self, call: Call, entry: Entry) -> None:
        request, now = call.asked, call.now
        require(entry.type in MOVES[request.move], f"{entry.type} where {request.move} was asked")
        life = self._transitions.follow(call, entry)
        match request.move:
            case Move.MANUAL_RETRY:
                life.start_again(now)
                self._reached("a job is retried manually")
            case Move.RUN_NOW:
                life.due_at_once(now)
                self._reached("a job is run now manually")
            case Move.MANUAL_CANCEL:
                if life.state == "running" and life.wish_at is None:
                    life.wish_at = self._timeline.now
            case Move.MANUAL_SNOOZE:
                life.due, life.is_unpaid = now + request.delay // timedelta(microseconds=1), False
                self._reached("a job is snoozed manually")
