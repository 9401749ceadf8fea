"""The oracle checks leases: their holders, the replies to beats, and when a lease is overdue."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mulligan.records.job import Fence
from simulator.broken import require
from simulator.gateway import ServiceWatch
from simulator.lives import Life, Lives
from simulator.server import Call, Entry
from simulator.shares import RateWatch, ShareWatch
from simulator.timeline import SECOND

if TYPE_CHECKING:
    from simulator.participants import Process
    from simulator.world import World


class LeaseWatch:
    def __init__(
        self, world: "World", lives: Lives, shares: ShareWatch, rates: RateWatch, services: ServiceWatch
    ) -> None:
        self._world = world
        self._reached = world.reached.note
        self._lives = lives
        self._shares = shares
        self._rates = rates
        self._services = services

    def adopted(self, call: Call, entries: list[Entry]) -> None:
        require(not entries, "wrote to the log")
        held = {fence.id for fence in call.options["held"]}
        expected = {
            Fence(life.id, life.attempt, *life.holder)
            for life in self._lives.held_by(call.asked)
            if life.holder and life.holder[1] < call.options["before"] and life.id not in held
        }
        require({lease.fence for lease in call.answer} == expected, "adopted the wrong leases")
        self._services.recalled(call.answer)
        if expected:
            self._reached("a claim that came late is adopted")

    def beaten(self, call: Call, entries: list[Entry]) -> None:
        require(not entries, "wrote to the log")
        lost = [fence for fence in call.asked.extend if not self._extended(call, fence)]
        require(call.answer.lost == lost, f"told {call.answer.lost} lost, not {lost}")
        if lost:
            self._reached("a keeper hears that a lease is lost")
        wished = {
            Fence(life.id, life.attempt, *life.holder)
            for life in self._lives.held_by(call.asked.worker.incarnation)
            if life.wish_at is not None and life.holder
        }
        require(set(call.answer.cancelled) == wished, "told of the wrong wishes to cancel")
        self._shares.beaten(call.now)
        self._rates.beaten(call.now)

    def _extended(self, call: Call, fence: Fence) -> bool:
        life = self._lives.known(fence.id)
        if not life.is_held_by(fence):
            return False
        if life.lease_until is not None and life.lease_until < call.now:
            self._reached("a lease is extended after it expired")
        life.lease_until = call.now + call.asked.lease // timedelta(microseconds=1)
        life.compare(self._world.server.store.row(life.id))
        return True

    # The reclaimer's looks: first at the clock, then at the leases unless something was wrong

    def clock_read(self, call: Call, entries: list[Entry]) -> None:
        require(not entries, "wrote to the log")
        participant: Any = call.participant
        if getattr(participant, "was_held_back", False):
            self._reached("a quiet beat holds a reclaimer back")
        participant.was_held_back = any(
            (life.lease_until or 0) < call.now and (life.holder or ("",))[0] != getattr(participant, "incarnation", "")
            for life in self._lives.running.values()
        )

    def called_overdue(self, call: Call, entries: list[Entry]) -> None:
        require(not entries, "wrote to the log")
        participant: Any = call.participant
        participant.was_held_back = False
        overdue = {
            life.id: life.lease_until or 0
            for life in self._lives.running.values()
            if (life.lease_until or 0) < call.now and life.holder and life.holder[0] != call.options["besides"]
        }
        answered = {lease.fence.id for lease in call.answer}
        is_page = answered <= overdue.keys() and len(answered) == min(len(overdue), call.options["limit"])
        require(is_page, "the wrong leases are called overdue")
        if left := overdue.keys() - answered:
            is_first = max(overdue[job] for job in answered) <= min(overdue[job] for job in left)
            require(is_first, "a lease that expired earlier is left overdue")

    def is_kept(self, holder: "Process", life: Life) -> bool:
        """A worker whom nothing befell for a whole lease has extended it: only a clock that stepped says otherwise."""
        known = holder.knows.get((life.id, life.attempt))
        if known is None or holder.is_dead or holder.loop.is_stopped:
            return False
        lease = int(self._world.parameters.lease.total_seconds() * SECOND)
        steady = max(known, holder.troubled_at, self._world.outage_at)
        return self._world.timeline.now - steady > lease
