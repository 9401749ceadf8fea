"""Redrives and bulk operations: start, list and cancel them. Workers carry them out (`duties/redrive.py`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mulligan.console.arguments import BY_THE_CALL, FILTER, FLAG, NAME, PAGE_SIZE, REQUEST_ID, STRING, check
from mulligan.errors import BadArgument, BadFilter, RedriveNotFound, RequestIdUsed
from mulligan.failure.redact import bounded
from mulligan.lifecycle import State
from mulligan.records.job import JobFilter, describe_filter
from mulligan.records.limit import EVERY_OWNER
from mulligan.records.rate import Rate, parse_rate
from mulligan.records.redrive import (
    BULK_VERBS,
    FORGET,
    JOBS,
    MOST_ACTIVE,
    MOST_CANARIES,
    MOVES,
    NOTHING_MATCHES,
    RETRY,
    RUN_NOW,
    SNOOZE,
    Course,
    Match,
    Redrive,
    RedriveState,
    burst,
    end,
    forget_request_id,
    has_same_terms,
    is_same_request,
    next_look,
)
from mulligan.store.redrives import REDRIVE
from mulligan.store.requests import to_once
from mulligan.store.store import Store
from mulligan.values.check import one_of
from mulligan.values.duration import Duration, describe, parse

FORGET_RATE = parse_rate("1000/s")
BULK_VERB = one_of(BULK_VERBS)
SAMPLE = 10
RUNNING = RedriveState.RUNNING
REDRIVEN = {State.FAILED, State.CANCELLED}
# Only the largest counts are stored.
MOST_MATCHES = 100


@dataclass(frozen=True, slots=True)
class Redrives:
    store: Callable[[], Store]
    ids: Callable[[], str]

    @check(
        wanted=FILTER,
        rate=BY_THE_CALL,
        canary=BY_THE_CALL,
        abort_above=BY_THE_CALL,
        owner=NAME,
        actor=STRING,
        reason=STRING,
        dry_run=FLAG,
        request_id=REQUEST_ID,
    )
    def start(
        self,
        wanted: JobFilter,
        *,
        rate: Rate | float | str = "50/s",
        canary: int = 5,
        abort_above: float = 0.5,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        wanted = _check_terms(wanted, canary, abort_above)
        terms = {"canary": canary, "abort_above": abort_above, "state": RedriveState.CANARY if canary else RUNNING}
        planned = self._plan(RETRY, wanted, parse_rate(rate), owner=owner, request_id=request_id, **terms)
        planned = replace(planned, actor=bounded(actor), reason=bounded(reason))
        return planned if dry_run else self._begin(planned)

    @check(
        verb=BULK_VERB,
        wanted=FILTER,
        ids=BY_THE_CALL,
        delay=BY_THE_CALL,
        rate=BY_THE_CALL,
        owner=NAME,
        actor=STRING,
        reason=STRING,
        dry_run=FLAG,
        request_id=REQUEST_ID,
    )
    def start_bulk(
        self,
        verb: str,
        wanted: JobFilter | None = None,
        *,
        ids: Sequence[str] | None = None,
        delay: Duration | None = None,
        rate: Rate | float | str = "500/s",
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        wanted = _select(verb, wanted, ids)
        planned = self._plan(
            verb, wanted, parse_rate(rate), owner=owner, request_id=request_id, delay=_delay(verb, delay)
        )
        planned = replace(planned, actor=bounded(actor), reason=bounded(reason))
        return planned if dry_run else self._begin(planned)

    @check(owner=BY_THE_CALL, actor=STRING, reason=STRING, dry_run=FLAG, request_id=REQUEST_ID)
    def forget(
        self,
        owner: str,
        *,
        actor: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        if not NAME.fits(owner) or owner in ("", EVERY_OWNER):
            raise BadArgument("owner", owner, "the name of one owner")
        planned = replace(self._plan_forget(owner), actor=bounded(actor), reason=bounded(reason))
        if dry_run:
            return planned
        once = to_once(request_id, "forget owner", REDRIVE, None, of=owner, actor=actor, reason=reason)
        redrive_id = self.ids()
        begun = self.store().begin_redrive(replace(planned, id=redrive_id, is_dry=False), once=once)
        return replace(begun, is_repeated=begun.id != redrive_id)

    def _plan_forget(self, owner: str) -> Redrive:
        """The next operation on this owner. While one is under way, it has the same request id and is not stored."""
        number = 0
        while (found := self.store().find_redrive(forget_request_id(owner, number))) and found.state.is_over:
            number += 1
        request_id = forget_request_id(owner, number)
        planned = self._plan(FORGET, JobFilter(owner=owner), FORGET_RATE, owner=None, request_id=request_id)
        # Also without jobs: there may be batches, or events.
        course = replace(planned.course, cursors={JOBS: ""})
        return replace(planned, state=RUNNING, ended_at=None, because=None, course=course)

    def _plan(
        self, verb: str, wanted: JobFilter, pace: Rate, *, owner: str | None, request_id: str | None, **terms: Any
    ) -> Redrive:
        """The operation as it would begin now. Without canaries it needs no answers, and does not stop itself."""
        now = self.store().now()
        matches = self.store().count_candidates(wanted, before=now, owner=owner)
        sample = self.store().candidates(wanted, before=now, owner=owner, limit=SAMPLE)
        planned = Redrive(
            id="",
            request_id=request_id or "",
            verb=verb,
            filter=wanted,
            owner=owner,
            rate=pace,
            actor=None,
            reason=None,
            **{"canary": 0, "abort_above": 1.0, "state": RUNNING, **terms},
            matched=sum(match.number for match in matches),
            matches=tuple(matches[:MOST_MATCHES]),
            sample=tuple(job.id for job in sample.jobs),
            began_at=now,
            is_dry=True,
            course=Course(cursors=dict.fromkeys(_kinds(matches), ""), paced_at=now - burst(pace)),
        )
        return planned if planned.matched else _nothing(planned)

    def _begin(self, planned: Redrive) -> Redrive:
        """Store it unless nothing matches. If its request id was used before, return that redrive instead."""
        if not planned.matched:
            return self._find_earlier(planned) or planned
        redrive_id = self.ids()
        new = replace(planned, id=redrive_id, request_id=planned.request_id or redrive_id, is_dry=False)
        begun = self.store().begin_redrive(new)
        return begun if begun.id == redrive_id else _same(begun, planned)

    def _find_earlier(self, planned: Redrive) -> Redrive | None:
        """The redrive of the same request id: when it is done, no job matches its filter any more."""
        if not planned.request_id:
            return None
        found = self.store().find_redrive(planned.request_id, owner=planned.owner)
        return found and _same(found, planned)

    @check(redrive_id=NAME, owner=NAME)
    def find(self, redrive_id: str, *, owner: str | None = None) -> Redrive:
        for redrive in self.store().redrives(redrive_id=redrive_id, owner=owner, limit=1):
            return redrive
        raise RedriveNotFound(redrive_id)

    @check(owner=NAME, limit=PAGE_SIZE)
    def search(self, *, owner: str | None = None, limit: int = 50) -> list[Redrive]:
        return self.store().redrives(owner=owner, limit=limit)

    @check(redrive_id=NAME, owner=NAME, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def cancel(
        self,
        redrive_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Redrive:
        once = to_once(request_id, "cancel redrive", REDRIVE, owner, redrive=redrive_id, actor=actor, reason=reason)
        return self.store().cancel_redrive(
            redrive_id, owner=owner, actor=bounded(actor), reason=bounded(reason), once=once
        )

    def next_look(self) -> datetime | None:
        """When a redrive may go on, unless an attempt ends earlier."""
        now = self.store().now()
        active = self.store().redrives(is_active=True, limit=MOST_ACTIVE)
        return min((next_look(redrive, now) for redrive in active), default=None)


def _nothing(planned: Redrive) -> Redrive:
    return end(planned, RedriveState.DONE, planned.began_at, because=NOTHING_MATCHES)


def _same(found: Redrive, planned: Redrive) -> Redrive:
    """The earlier redrive of this request id; raise RequestIdUsed if it differs from the new one."""
    if not is_same_request(found, planned):
        verb = "" if found.verb == RETRY else f"{found.verb} "
        raise RequestIdUsed(
            planned.request_id,
            found.id,
            f"is about other jobs ({verb}{describe_filter(found.filter, found.owner)})",
        )
    if not has_same_terms(found, planned):
        terms = f"rate {found.rate}, canary {found.canary}, abort_above {found.abort_above:g}"
        if found.delay:
            terms += f", delay {describe(found.delay)}"
        raise RequestIdUsed(planned.request_id, found.id, f"has other terms ({terms})")
    return replace(found, is_repeated=True)


def _kinds(matches: Sequence[Match]) -> list[str]:
    return list(dict.fromkeys(match.kind for match in matches))


def _select(verb: str, wanted: JobFilter | None, ids: Sequence[str] | None) -> JobFilter:
    """The filter of a bulk operation, with the states in which the move is possible."""
    if wanted is None and ids is None:
        raise BadArgument("wanted", None, "a JobFilter(…), or ids=[…]: JobFilter() selects all jobs")
    chosen = wanted or JobFilter()
    chosen = chosen if ids is None else replace(chosen, ids=ids)
    possible = MOVES[verb].sources
    if chosen.state is not None and not set(chosen.states) <= set(possible):
        raise BadFilter("state", chosen.state, f"one or several of {', '.join(possible)}, where {verb} is possible")
    # Jobs that are over are run again only if asked for, by their ids or their state.
    default = possible if verb != RUN_NOW or chosen.ids is not None else (State.WAITING,)
    return replace(chosen, state=chosen.state or default)


def _delay(verb: str, delay: Duration | None) -> timedelta:
    if (delay is not None) != (verb == SNOOZE):
        raise BadArgument("delay", delay, "a duration such as '1h' for a snooze, and not given otherwise")
    return parse(delay or 0)


def _check_terms(wanted: JobFilter, canary: int, abort_above: float) -> JobFilter:
    if wanted.state is not None and not set(wanted.states) <= REDRIVEN:
        raise BadFilter("state", wanted.state, "failed or cancelled: only jobs that are over are redriven")
    if isinstance(canary, bool) or not isinstance(canary, int) or not 0 <= canary <= MOST_CANARIES:
        raise BadFilter("canary", canary, f"an integer from 0 to {MOST_CANARIES}")
    if isinstance(abort_above, bool) or not isinstance(abort_above, int | float) or not 0 <= abort_above <= 1:
        raise BadFilter("abort_above", abort_above, "a fraction from 0 to 1")
    return replace(wanted, state=wanted.state or State.FAILED)
