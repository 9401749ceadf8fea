"""Incoming hooks: create, list and remove them, and carry out their calls."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from mulligan.console.arguments import (
    BODY,
    CURSOR,
    FLAG,
    HEADERS,
    KEY_NAME,
    NAME,
    PAGE_SIZE,
    REQUEST_ID,
    SCOPES,
    STRING,
    check,
)
from mulligan.console.redrives import Redrives
from mulligan.errors import (
    BadSubscriptionOption,
    GroupNotFound,
    HookCalledTooOften,
    HookRefused,
    SubscriptionNotAllowed,
)
from mulligan.failure.redact import bounded
from mulligan.records.admission import AdmissionRequest, NewAuditEntry, RateExceeded
from mulligan.records.hook import CreatedHook, IncomingHook
from mulligan.records.job import JobFilter
from mulligan.records.key import Scope
from mulligan.records.rate import parse_rate
from mulligan.records.redrive import Redrive
from mulligan.store.requests import AnswerFormat, format_with, to_once
from mulligan.store.store import Store

# How far the time of a call may be from the store's.
TOLERANCE = timedelta(minutes=5)
LONGEST_MESSAGE_ID = 100
# Of one hook, over all servers.
CALLS = parse_rate("10/m")
UNKNOWN_ACTOR = "unknown"
HOOK: AnswerFormat[IncomingHook] = format_with(IncomingHook, _secret=str)


class IsSigned(Protocol):
    def __call__(self, body: bytes, headers: Mapping[str, str], *, secret: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class IncomingHooks:
    store: Callable[[], Store]
    ids: Callable[[], str]
    _: KW_ONLY
    redrives: Redrives
    new_secret: Callable[[], str]
    is_signed: IsSigned

    @check(
        name=KEY_NAME,
        group=NAME,
        batch=NAME,
        owner=KEY_NAME,
        within=SCOPES,
        is_audited=FLAG,
        actor=STRING,
        request_id=REQUEST_ID,
    )
    def create(
        self,
        name: str,
        *,
        group: str | None = None,
        batch: str | None = None,
        owner: str | None = None,
        within: Collection[Scope] | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> CreatedHook:
        """With `within`, the scopes of the caller's key: a hook retries jobs, so they must allow that."""
        terms = {"name": name, "group": group, "batch": batch, "actor": actor}
        once = to_once(request_id, "create hook", HOOK, owner, **terms)
        if answers := self.store().find_answers(once):
            return _show(answers[0])
        if (group is None) is (batch is None):
            raise BadSubscriptionOption("group", "a hook needs either group= or batch=: whose failed jobs it retries")
        if within is not None and Scope.JOBS_RETRY not in within:
            raise SubscriptionNotAllowed(f"a hook retries jobs, and the key lacks the scope {Scope.JOBS_RETRY}")
        if batch is not None:
            self.store().batch(batch, owner=owner)
        if group is not None and not self._has_group(group, owner):
            raise GroupNotFound(group)
        values = {
            "id": self.ids(),
            "owner": owner,
            "name": name,
            "error_group": group,
            "batch": batch,
            "secret": self.new_secret(),
            "created_by": bounded(actor),
        }
        audit = [] if is_audited else [self._entry("create hook", values["id"] or "", owner, actor)]
        return _show(self.store().create_hook(values, audit=audit, once=once))

    def _has_group(self, group: str, owner: str | None) -> bool:
        """A job has its group at once; the groups themselves are counted a moment later, and kept for longer."""
        store = self.store()
        return store.group(group, owner=owner) is not None or bool(
            store.jobs(JobFilter(group=group, owner=owner), limit=1).jobs
        )

    @check(owner=KEY_NAME, limit=PAGE_SIZE, cursor=CURSOR)
    def list_all(self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None) -> list[IncomingHook]:
        return self.store().hooks(owner=owner, limit=limit, cursor=cursor)

    @check(hook=NAME, owner=KEY_NAME, is_audited=FLAG, actor=STRING, request_id=REQUEST_ID)
    def remove(
        self,
        hook: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> IncomingHook:
        audit = [] if is_audited else [self._entry("remove hook", hook, owner, actor)]
        once = to_once(request_id, "remove hook", HOOK, owner, hook=hook, actor=actor)
        return self.store().remove_hook(hook, owner=owner, audit=audit, once=once)

    @check(hook=NAME, headers=HEADERS, body=BODY, ip=STRING)
    def receive(self, hook: str, headers: Mapping[str, str], body: bytes, *, ip: str | None = None) -> Redrive:
        """Retry what the hook is for. A call that is repeated returns the redrive of the first. Raises HookRefused."""
        found = self.store().hook(hook)
        # A hook that does not exist takes as long as a signature that does not fit.
        secret = self.new_secret() if found is None else found._secret
        given = {name.lower(): value for name, value in headers.items()}
        is_signed = self.is_signed(body, given, secret=secret)
        if found is None or not is_signed or not self._is_recent(given["webhook-timestamp"]):
            raise HookRefused
        message_id = given["webhook-id"]
        if not 0 < len(message_id) <= LONGEST_MESSAGE_ID:
            raise HookRefused
        actor = f"{found.name} (hook {found.id})"
        entry = NewAuditEntry(
            id=self.ids(),
            actor=bounded(actor),
            action="POST /hooks/{hook_id}",
            target=found.id,
            owner=found.owner,
            request_id=message_id,
            ip=ip,
        )
        self._admit(found, entry)
        # The id of the message is remembered with the redrive, for longer than its time is accepted.
        return self.redrives.start(
            JobFilter(group=found.group, batch=found.batch),
            owner=found.owner,
            actor=actor,
            reason="a signed call of the hook",
            request_id=f"hook/{found.id}/{message_id}",
        )

    def _admit(self, hook: IncomingHook, entry: NewAuditEntry) -> None:
        wanted = AdmissionRequest(subject=f"hook/{hook.id}", rate=CALLS, change=entry)
        (answer,) = self.store().admit([wanted])
        if isinstance(answer, RateExceeded):
            raise HookCalledTooOften(hook.id, answer.retry_after)
        self.store().note_hook_call(hook.id)

    def _is_recent(self, timestamp: str) -> bool:
        try:
            called_at = datetime.fromtimestamp(int(timestamp), UTC)
        except (ValueError, OverflowError, OSError):
            return False
        return abs(self.store().now() - called_at) <= TOLERANCE

    def _entry(self, action: str, target: str, owner: str | None, actor: str | None) -> NewAuditEntry:
        by = bounded(actor or UNKNOWN_ACTOR)
        return NewAuditEntry(id=self.ids(), actor=by, action=action, target=target, owner=owner)


def _show(hook: IncomingHook) -> CreatedHook:
    return CreatedHook(hook=hook, secret=hook._secret)
