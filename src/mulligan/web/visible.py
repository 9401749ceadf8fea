"""What a caller may see of a record. Arguments and results are masked without the scope `args:reveal`; an owner sees no
workers, no people and no technical detail, as in `explain`."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from msgspec import structs

from mulligan.explain import Explanation
from mulligan.explain.context import hide_in_event, hide_in_job
from mulligan.failure.redact import MASK, is_secret_name, is_value_key, mask_secrets, names_secret
from mulligan.records.audit import AuditEntry
from mulligan.records.event import Event, EventPage
from mulligan.records.failure_group import FailureGroup, GroupPage
from mulligan.records.hook import CreatedHook, IncomingHook
from mulligan.records.job import Job, Page
from mulligan.records.key import Key, Scope
from mulligan.records.redrive import Redrive, RedriveState
from mulligan.records.subscription import GONE, CreatedSubscription, SubscriptionRecord
from mulligan.web.access.caller import Caller

# Who acted without a key.
OPERATOR = "an operator"

_OfPeople = Event | Redrive | Key | AuditEntry | FailureGroup | SubscriptionRecord | IncomingHook


def visible(found: Any, caller: Caller) -> Any:
    """The record, or the records of a list or a dictionary, as the caller may see them."""
    match found:
        case Job():
            return _job(found, caller)
        case _ if isinstance(found, _OfPeople):
            return found if caller.is_admin else _hide_people(found)
        case Page():
            return replace(found, jobs=visible(found.jobs, caller))
        case EventPage():
            return replace(found, events=visible(found.events, caller))
        case GroupPage():
            return replace(found, groups=visible(found.groups, caller))
        case CreatedSubscription():
            return replace(found, subscription=visible(found.subscription, caller))
        case CreatedHook():
            return replace(found, hook=visible(found.hook, caller))
        case Explanation():
            return replace(found, job=visible(found.job, caller))
        case tuple() | list():
            return type(found)(visible(each, caller) for each in found)
        case dict():
            return {name: visible(each, caller) for name, each in found.items()}
    return found


def _hide_people(found: _OfPeople) -> Any:
    """As an owner may see it: operators act on what belongs to owners."""
    match found:
        case Event():
            return hide_in_event(found)
        case Redrive():
            because = None if found.state is RedriveState.CANCELLED else found.because
            return replace(found, actor=None, reason=None, because=because)
        case Key() | IncomingHook():
            return replace(found, created_by=None)
        case SubscriptionRecord():
            because = found.disabled_because if found.disabled_because == GONE else None
            return replace(found, created_by=None, disabled_because=because)
        case FailureGroup():
            # The title is the technical line of the first failure.
            title = f"{found.code}: {found.sample.message}"
            return replace(found, title=title, sample=replace(found.sample, error=""))
        case AuditEntry():
            return replace(found, actor=OPERATOR) if found.key is None else found


def _job(job: Job[Any], caller: Caller) -> Job[Any]:
    if not caller.is_admin:
        job = hide_in_job(job)
    if Scope.ARGS_REVEAL in caller.scopes:
        return job
    return structs.replace(job, arguments=mask(job.arguments), result=mask(job.result))


def mask(value: Any) -> Any:
    """The value with the secrets in it masked: those with a telling name, and those that look like one."""
    match value:
        case str():
            return mask_secrets(value)
        case Mapping():
            return _mask_fields(value)
        case list() | tuple():
            return _mask_options([_mask_behind(before, item) for before, item in pairwise((None, *value))])
    return value


def _mask_fields(fields: Mapping[Any, Any]) -> dict[Any, Any]:
    is_named = any(isinstance(item, str) and names_secret(str(key), item) for key, item in fields.items())

    def is_secret(key: str) -> bool:
        return is_secret_name(key) or (is_named and is_value_key(key))

    return {key: MASK if item and is_secret(str(key)) else mask(item) for key, item in fields.items()}


def _mask_behind(before: Any, item: Any) -> Any:
    """The item of a list, which may be the value of the one before it: `["--password", "x"]`."""
    return MASK if item and isinstance(before, str) and is_secret_name(before) else mask(item)


def _mask_options(items: list[Any]) -> list[Any]:
    """A command with `-u ann:x` or `-px` masked as its text is: only what stands before shows that they are secrets."""
    words = [item for item in items if isinstance(item, str)]
    if not any(word.startswith("-") for word in words):
        return items
    masked = iter(_mask_together(words))
    return [next(masked) if isinstance(item, str) else item for item in items]


def _mask_together(words: list[str]) -> list[str]:
    try:
        masked: list[str] = json.loads(mask_secrets(json.dumps(words, ensure_ascii=False)))
    except ValueError:
        masked = []
    # Where the mask covers the border of two words, they cannot be told apart any more.
    return masked if len(masked) == len(words) else [MASK] * len(words)
