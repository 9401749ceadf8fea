"""The door, in every store: what is due is let through, in passes of bounded size."""

from collections.abc import Callable
from typing import Any, NamedTuple

from mulligan.lifecycle import TABLE, Move, State
from mulligan.store.batch_counts import CountChanges
from mulligan.store.expire import ExpireOperations
from mulligan.store.limits import LimitOperations
from mulligan.store.messages import Claim
from mulligan.store.probes import ProbeOperations
from mulligan.store.services import ServiceOperations
from mulligan.store.session import Now, Session

PROMOTE_PASS = 1_000
PROMOTE_PASSES = 10

Passing = Callable[[Session, str, dict[str, Any]], tuple[int, int]]
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


class PromoteOperations:
    def __init__(
        self, services: ServiceOperations, limits: LimitOperations, unrun: ExpireOperations, passing: Passing
    ) -> None:
        self._services = services
        self._limits = limits
        self._unrun = unrun
        self._passing = passing
        self._probes = ProbeOperations(services)

    def look(self, session: Session, now: Now) -> Look:
        (row,) = session.rows("door", {"now": now})
        return Look(**{name: bool(answer) for name, answer in row.items()})

    def promote(
        self, session: Session, now: Now, tally: CountChanges | None = None, claim: Claim | None = None
    ) -> tuple[Look, int | None]:
        """What is left to do, and in how many microseconds it is worth to look at the limits again. Members that fail
        here count into the tally, if there is one. What a claim needs to probe a service comes back for it."""
        self._say_limits(session, now)
        look, again = self._promote(session, now, tally)
        if look.has_probes and self._unpark(session, claim, now):
            look, again = self._promote(session, now, tally)
        return look, again

    def _promote(self, session: Session, now: Now, tally: CountChanges | None) -> tuple[Look, int | None]:
        look = self.look(session, now)
        if look.is_anyone:
            self._pass_all(session, now)
            # Some of them may wait for a budget or a limit from now on.
            look = self.look(session, now)
        has_admitted = look.has_budget and self._admit(session, now) > 0
        if not (look.has_limit or look.is_new_limit or has_admitted):
            return look, None
        again = self._let_in(session, now, tally)
        if look.is_new_limit:
            look = self.look(session, now)
        return look, again

    def promote_by_duty(self, session: Session, duty: str, limit: int, now: Now, *, by_hand: bool) -> int:
        self._say_limits(session, now)
        passed = 0
        if self.look(session, now).is_anyone:
            passed, _ = self.promote_pass(session, "promote", now, duty=duty, limit=limit)
        if by_hand and passed < limit:
            passed += sum(self.promote_pass(session, "admit", now, duty=duty, limit=limit - passed))
        self._let_in(session, now)
        return passed

    def promote_pass(
        self,
        session: Session,
        statement: str,
        now: Now,
        *,
        limit: int,
        duty: str | None = None,
        gate: str | None = None,
    ) -> tuple[int, int]:
        """How many passed the door, and how many are held back from now on."""
        step = TABLE[Move.PROMOTE, State.WAITING]
        where = {"duty": duty, "gate": gate or f"duty/{duty}", "limit": limit}
        return self._passing(
            session, statement, {**where, "now": now, "queued": step.target.value, "event": step.event}
        )

    def _pass_all(self, session: Session, now: Now) -> None:
        for _ in range(PROMOTE_PASSES):
            if sum(self.promote_pass(session, "promote", now, limit=PROMOTE_PASS)) < PROMOTE_PASS:
                return

    def _say_limits(self, session: Session, now: Now) -> None:
        if self._limits.has_news:
            self._limits.announce(session, session.moment(now))

    def _admit(self, session: Session, now: Now) -> int:
        """How many retries left their gates, as their services' budgets allow."""
        allowed = self._services.admitted(session, session.moment(now))
        moved = 0
        for gate, number in allowed:
            moved += sum(self.promote_pass(session, "admit", now, gate=gate, limit=number or PROMOTE_PASS))
        return moved

    def _unpark(self, session: Session, claim: Claim | None, now: Now) -> int:
        """How many need not wait for their service any longer. After all others: a job that comes now may be tried
        instead of them."""
        free, needed = self._probes.admit(session, claim, session.moment(now))
        moved = 0
        for gate in free:
            moved += self._come_back(session, gate, now, passes=PROMOTE_PASSES)
        for gate in needed:
            # A round of so many probes takes hours, and the claim that begins it is waited for.
            moved += self._come_back(session, gate, now, passes=1)
        return moved

    def _come_back(self, session: Session, gate: str, now: Now, *, passes: int) -> int:
        moved = 0
        for _ in range(passes):
            passed = sum(self.promote_pass(session, "unpark", now, gate=gate, limit=PROMOTE_PASS))
            moved += passed
            if passed < PROMOTE_PASS:
                break
        return moved

    def _let_in(self, session: Session, now: Now, tally: CountChanges | None = None) -> int | None:
        """In how many microseconds it is worth to look again."""
        admitted = self._limits.admit(session, session.moment(now))
        self._unrun.finish(session, admitted.failed, now, tally=tally)
        return admitted.again_in
