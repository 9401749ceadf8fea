"""The oracle checks claims: which jobs are leased to which worker, in which order, and what a repeated call returns."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mulligan.records.job import Fence
from simulator.broken import require
from simulator.gateway import ServiceWatch
from simulator.lives import Life
from simulator.promotions import PromotionWatch
from simulator.server import Call, Entry
from simulator.shares import ShareWatch
from simulator.transitions import Transitions

if TYPE_CHECKING:
    from simulator.world import World


class ClaimWatch:
    def __init__(
        self,
        world: "World",
        transitions: Transitions,
        promotions: PromotionWatch,
        shares: ShareWatch,
        services: ServiceWatch,
    ) -> None:
        self._world = world
        self._reached = world.reached.note
        self._transitions = transitions
        self._lives = transitions.lives
        self._promotions = promotions
        self._shares = shares
        self._services = services
        self._new: list[Life] | None = None
        """What the last claim began; None: it was a repeated one."""

    def claimed(self, call: Call, entries: list[Entry]) -> None:
        claim, leases = call.asked, call.answer.leases
        self._new = None
        name = (claim.incarnation, claim.number)
        repeated = {Fence(life.id, life.attempt, *name) for life in self._lives.held_by(*name)}
        if repeated:
            self._promotions.promoted(call, entries)
            require({lease.fence for lease in leases} == repeated, "a repeated claim returned other leases")
            self._services.recalled(leases)
            self._reached("a claim repeated after a lost reply returns the same leases")
            return
        started = []
        for entry in entries:
            if entry.type == "job.started":
                started.append(self._started(call, entry))
            else:
                self._promotions.promoted_one(call, entry)
        fences = {Fence(life.id, life.attempt, *name) for life in started}
        require({lease.fence for lease in leases} == fences, "the answer and the log differ")
        require(len(leases) <= claim.limit, "more than was wanted")
        self._shares.taken(started, claim.fair)
        self._new = started

    def in_order(self, call: Call) -> None:
        """Checked last: a job that the claim admitted may have been cancelled with its batch before it was taken."""
        if self._new is not None:
            self._in_order(call.asked, self._new, call.now)

    def _started(self, call: Call, entry: Entry) -> Life:
        claim = call.asked
        self._found_again(entry.job)
        life = self._transitions.follow(call, entry)
        require(not life.is_late(call.now), f"{life.name} was begun after its deadline")
        require(life.kind in claim.kinds, f"{life.name} ({life.kind}) was given to a worker that cannot run it")
        life.attempt += 1
        life.holder = (claim.incarnation, claim.number)
        life.lease_until = call.now + claim.lease // timedelta(microseconds=1)
        life.claimed_at = call.now
        life.started_at = self._world.timeline.now
        return life

    def _found_again(self, job: str) -> None:
        life = self._lives.by_id.get(job)
        if life is not None and life.lost_at is not None and self._world.promises.found_again(life, life.lost_at):
            self._reached("a lost job is claimed again in time")

    def _in_order(self, claim: Any, started: list[Life], now: int) -> None:
        """By priority, then by rank: no job that could be taken comes before one that was."""
        queued = self._lives.queued.values()
        left = [life for life in queued if life.kind in claim.kinds and not life.is_late(now)]
        held = {life.service for life in left if self._services.is_restricted(life.service)}
        free = [life for life in left if life.service not in held]
        require(not free or len(started) == claim.limit, "jobs were left behind although there was room")
        require(_is_before(started, free), "taken out of turn")
        # What has to wait for its service does so in its own order; a probe of it comes before the others.
        for service, kind in {(life.service, life.kind) for life in left if life.service in held}:
            taken, waiting = (
                [life for life in lives if (life.service, life.kind) == (service, kind)] for lives in (started, left)
            )
            require(_is_before(taken, waiting), f"taken out of turn of {service}")


def _is_before(some: list[Life], others: list[Life]) -> bool:
    """All of them, by priority, rank and age."""
    return not some or not others or max(life.order for life in some) < min(life.order for life in others)
