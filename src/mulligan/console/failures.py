"""Failure groups: list them, retry their jobs, and decide about them. The duty `project` derives them from the log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mulligan.console.arguments import (
    BY_THE_CALL,
    FLAG,
    GROUP_ORDER,
    GROWTH,
    NAME,
    PAGE_SIZE,
    PAUSE_LENGTH,
    REQUEST_ID,
    STRING,
    check,
)
from mulligan.console.redrives import Redrives
from mulligan.errors import BadArgument, GroupNotFound
from mulligan.failure.redact import bounded
from mulligan.records.failure_group import FailureGroup, GroupDecision, GroupPage, GroupState
from mulligan.records.job import JobFilter
from mulligan.records.rate import Rate
from mulligan.records.redrive import Redrive
from mulligan.store.requests import AnswerFormat, answer_format, to_once
from mulligan.store.store import Store
from mulligan.values.duration import Duration, parse

GROUP: AnswerFormat[FailureGroup] = answer_format(FailureGroup)


@dataclass(frozen=True, slots=True)
class Failures:
    """`owner=None` is the administrator."""

    store: Callable[[], Store]
    ids: Callable[[], str]
    redrives: Redrives

    @check(
        state=BY_THE_CALL,
        kind=NAME,
        code=NAME,
        order=GROUP_ORDER,
        owner=NAME,
        limit=PAGE_SIZE,
        cursor=BY_THE_CALL,
    )
    def search(
        self,
        *,
        state: GroupState | str | Sequence[GroupState | str] | None = None,
        kind: str | None = None,
        code: str | None = None,
        order: str = "impact",
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> GroupPage:
        groups, following = self.store().groups(
            owner=owner, states=_states(state), kind=kind, code=code, order=order, skip=_skip(cursor), limit=limit
        )
        reached = self.store().projection_status().reached_at
        counts = self.store().count_groups(owner=owner, kind=kind, code=code)
        return GroupPage(tuple(groups), None if following is None else str(following), reached, counts)

    @check(group=NAME, owner=NAME)
    def find(self, group: str, *, owner: str | None = None) -> FailureGroup:
        found = self.store().group(group, owner=owner)
        if found is None:
            raise GroupNotFound(group)
        return found if owner is not None else replace(found, top_owners=tuple(self.store().group_owners(group)))

    @check(
        group=NAME,
        rate=BY_THE_CALL,
        canary=BY_THE_CALL,
        abort_above=BY_THE_CALL,
        owner=NAME,
        actor=STRING,
        reason=STRING,
        dry_run=FLAG,
        request_id=REQUEST_ID,
    )
    def retry(
        self,
        group: str,
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
        begun = self.redrives.start(
            JobFilter(group=group),
            rate=rate,
            canary=canary,
            abort_above=abort_above,
            owner=owner,
            actor=actor,
            reason=reason,
            dry_run=dry_run,
            request_id=request_id,
        )
        # Jobs may have failed that were not folded into a group yet.
        if not begun.matched:
            self.find(group, owner=owner)
        return begun

    @check(group=NAME, duration=PAUSE_LENGTH, growth=GROWTH, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def ignore(
        self,
        group: str,
        duration: Duration | None = None,
        *,
        growth: float | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> FailureGroup:
        until = None if duration is None else parse(duration)
        decision = GroupDecision(id=self.ids(), group=group, decision=GroupState.IGNORED, until=until, growth=growth)
        return self._decide(decision, actor, reason, request_id)

    @check(group=NAME, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def resolve(
        self, group: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> FailureGroup:
        decision = GroupDecision(id=self.ids(), group=group, decision=GroupState.RESOLVED)
        return self._decide(decision, actor, reason, request_id)

    @check(group=NAME, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def reopen(
        self, group: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> FailureGroup:
        decision = GroupDecision(id=self.ids(), group=group, decision=GroupState.OPEN)
        return self._decide(decision, actor, reason, request_id)

    def _decide(
        self, decision: GroupDecision, actor: str | None, reason: str | None, request_id: str | None
    ) -> FailureGroup:
        terms = {"until": decision.until and decision.until.total_seconds(), "growth": decision.growth}
        once = to_once(
            request_id,
            f"{decision.decision} group",
            GROUP,
            None,
            of=decision.group,
            actor=actor,
            reason=reason,
            **terms,
        )
        signed = replace(decision, actor=bounded(actor), reason=bounded(reason))
        return self.store().decide_group(signed, once=once)


def _states(given: GroupState | str | Sequence[GroupState | str] | None) -> list[GroupState]:
    if given is None:
        return []
    try:
        return [GroupState(state) for state in ([given] if isinstance(given, str) else given)]
    except (ValueError, TypeError):
        raise BadArgument("state", given, f"one of {', '.join(GroupState)}, or a list of them") from None


def _skip(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not isinstance(cursor, str) or not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 9:
        raise BadArgument("cursor", cursor, "the unchanged cursor of the previous page")
    return int(cursor)
