"""The door, in every store: what is due is let through, in passes of bounded size."""

from collections.abc import Callable
from typing import Any, NamedTuple

from mulligan.lifecycle import TABLE, Move, State
from mulligan.store.batch_counts import CountChanges
from mulligan.store.clock import Now, moment
from mulligan.store.expire import UnrunSteps
from mulligan.store.limits import LimitDesk
from mulligan.store.probes import ProbeSteps
from mulligan.store.protocols import Claim
from mulligan.store.services import ServiceDesk
from mulligan.store.session import Statement, Steps
from mulligan.store.statements import Statements

PROMOTE_PASS = 1_000
PROMOTE_PASSES = 10

Passing = Callable[[str, dict[str, Any]], Steps[tuple[int, int]]]
"""A store's steps for one pass, by the name of its statement: how many pass, and how many are held back from now on."""


class Look(NamedTuple):
    """What there is to do at the door."""

    is_anyone: bool
    """Somebody may pass, or is to be parked."""
    asks: bool
    """A service has to be asked before its jobs are claimed."""
    has_budget: bool
    """Retries wait for a service's budget."""
    has_probes: bool
    """Jobs wait for their service."""
    has_limit: bool
    """Jobs wait for a limit or an owner's budget."""
    is_new_limit: bool
    """A limit does not count yet who came before it: until it does, what it is about is not claimed."""

    @property
    def has_work(self) -> bool:
        return self.is_anyone or self.has_budget or self.has_probes or self.has_limit or self.is_new_limit


class DoorSteps:
    def __init__(
        self, sql: Statements, services: ServiceDesk, limits: LimitDesk, unrun: UnrunSteps, passing: Passing
    ) -> None:
        self._sql = sql
        self._services = services
        self._limits = limits
        self._unrun = unrun
        self._passing = passing
        self._probes = ProbeSteps(sql, services)

    def looking(self, now: Now) -> Steps[Look]:
        (row,) = yield Statement(self._sql["door"], {"now": now})
        return Look(**{name: bool(answer) for name, answer in row.items()})

    def promoting(
        self, now: Now, tally: CountChanges | None = None, claim: Claim | None = None
    ) -> Steps[tuple[Look, int | None]]:
        """What is left to do, and in how many microseconds it is worth to look at the limits again. Members that fail
        here count into the tally, if there is one. What a claim needs to probe a service comes back for it."""
        yield from self._say_limits(now)
        look, again = yield from self._promote(now, tally)
        if look.has_probes and (yield from self._unpark(claim, now)):
            look, again = yield from self._promote(now, tally)
        return look, again

    def _promote(self, now: Now, tally: CountChanges | None) -> Steps[tuple[Look, int | None]]:
        look = yield from self.looking(now)
        if look.is_anyone:
            yield from self._pass_all(now)
            # Some of them may wait for a budget or a limit from now on.
            look = yield from self.looking(now)
        has_admitted = look.has_budget and (yield from self._admit(now)) > 0
        if not (look.has_limit or look.is_new_limit or has_admitted):
            return look, None
        again = yield from self._let_in(now, tally)
        if look.is_new_limit:
            look = yield from self.looking(now)
        return look, again

    def promoting_by_duty(self, duty: str, limit: int, now: Now, *, by_hand: bool) -> Steps[int]:
        yield from self._say_limits(now)
        passed = 0
        if (yield from self.looking(now)).is_anyone:
            passed, _ = yield from self.passing("promote", now, duty=duty, limit=limit)
        if by_hand and passed < limit:
            passed += sum((yield from self.passing("admit", now, duty=duty, limit=limit - passed)))
        yield from self._let_in(now)
        return passed

    def passing(
        self, statement: str, now: Now, *, limit: int, duty: str | None = None, gate: str | None = None
    ) -> Steps[tuple[int, int]]:
        """How many passed the door, and how many are held back from now on."""
        step = TABLE[Move.PROMOTE, State.WAITING]
        where = {"duty": duty, "gate": gate or f"duty/{duty}", "limit": limit}
        return self._passing(statement, {**where, "now": now, "queued": step.target.value, "event": step.event})

    def _pass_all(self, now: Now) -> Steps[None]:
        for _ in range(PROMOTE_PASSES):
            if sum((yield from self.passing("promote", now, limit=PROMOTE_PASS))) < PROMOTE_PASS:
                return

    def _say_limits(self, now: Now) -> Steps[None]:
        if self._limits.has_news:
            yield from self._limits.says((yield from moment(self._sql, now)))

    def _admit(self, now: Now) -> Steps[int]:
        """How many retries left their gates, as their services' budgets allow."""
        allowed = yield from self._services.admitted((yield from moment(self._sql, now)))
        moved = 0
        for gate, number in allowed:
            moved += sum((yield from self.passing("admit", now, gate=gate, limit=number or PROMOTE_PASS)))
        return moved

    def _unpark(self, claim: Claim | None, now: Now) -> Steps[int]:
        """How many need not wait for their service any longer. After all others: a job that comes now may be tried
        instead of them."""
        free, needed = yield from self._probes.admitted(claim, (yield from moment(self._sql, now)))
        moved = 0
        for gate in free:
            moved += yield from self._come_back(gate, now, passes=PROMOTE_PASSES)
        for gate in needed:
            # A round of so many probes takes hours, and the claim that begins it is waited for.
            moved += yield from self._come_back(gate, now, passes=1)
        return moved

    def _come_back(self, gate: str, now: Now, *, passes: int) -> Steps[int]:
        moved = 0
        for _ in range(passes):
            passed = sum((yield from self.passing("unpark", now, gate=gate, limit=PROMOTE_PASS)))
            moved += passed
            if passed < PROMOTE_PASS:
                break
        return moved

    def _let_in(self, now: Now, tally: CountChanges | None = None) -> Steps[int | None]:
        """In how many microseconds it is worth to look again."""
        admitted = yield from self._limits.admit((yield from moment(self._sql, now)))
        yield from self._unrun.ending(admitted.failed, now, tally=tally)
        return admitted.again_in
