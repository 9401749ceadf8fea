"""Keys: who may use the API and these pages. A token is shown once, on the page that answers its creation."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from mulligan.errors import BadArgument
from mulligan.records.key import ADMIN_ONLY, OWNER_SCOPES, Key, Scope
from mulligan.web.access.caller import Caller
from mulligan.web.api.terms import String
from mulligan.web.pages.page import Done, PageCall, Pages, View
from mulligan.web.pages.sentence import Sentence, held
from mulligan.web.pages.words import listing, number, plural, verb

pages = Pages("Keys")

PAGE = 50
SOON = timedelta(days=7)
ABOUT = {
    Scope.JOBS_READ: "see jobs, failures and statistics",
    Scope.JOBS_ENQUEUE: "enqueue jobs",
    Scope.JOBS_RETRY: "retry, run now, redrive",
    Scope.JOBS_CANCEL: "cancel, snooze, delete",
    Scope.ARGS_REVEAL: "see arguments and results unmasked",
    Scope.WEBHOOKS_MANAGE: "subscriptions and hooks",
    Scope.KEYS_MANAGE: "keys and the audit",
    Scope.OPERATE: "pauses, services, duties, policies; administrators only",
}


class PageQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    cursor: String | None = None


class KeyForm(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`whose` decides: an empty owner must not make an administrator by accident."""

    name: str
    whose: Literal["owner", "administrator"] = "owner"
    owner: str | None = None
    scopes: list[Scope] = []
    expires_in: str | None = None


def state_of(key: Key, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "usable"


def describe_keys(keys: Sequence[Key], now: datetime, *, is_whole: bool) -> Sentence:
    """`is_whole`: there are no others."""
    usable = [key for key in keys if state_of(key, now) == "usable"]
    unused = [key.name for key in usable if key.last_used_at is None]
    ending = [key.name for key in usable if key.expires_at is not None and key.expires_at - now < SOON]
    lead = f"{listing(unused)} {verb(len(unused), 'was', 'were')} never used." if unused else ""
    if not is_whole:
        return Sentence((f"Keys, {PAGE} on a page.",), (lead,))
    if not keys:
        return Sentence(("There is no key yet.",), ("A key lets a program use the API, and a person these pages.",))
    can = f"{plural(len(usable), 'key')} can be used." if usable else "No key can be used."
    if not ending:
        return Sentence((can,), (lead,))
    soon = held(f"{number(len(ending))} {verb(len(ending), 'expires', 'expire')} within a week")
    return Sentence((f"{can} ", soon, "."), (lead,))


def scopes_of(caller: Caller) -> list[tuple[Scope, str, bool]]:
    """The scopes that a new key of this caller can have, what each allows, and whether it is usual."""
    possible = [scope for scope in Scope if scope in caller.scopes and (caller.is_admin or scope not in ADMIN_ONLY)]
    return [(scope, ABOUT[scope], scope in OWNER_SCOPES) for scope in possible]


@pages.page("/keys", scope=Scope.KEYS_MANAGE)
def show_keys(call: PageCall, query: PageQuery) -> View:
    keys = call.console.keys(limit=PAGE, cursor=query.cursor)
    has_more = len(keys) == PAGE
    return View(
        "keys.html",
        says=describe_keys(keys, call.now, is_whole=not has_more and query.cursor is None),
        keys=[(key, state_of(key, call.now)) for key in keys],
        cursor=keys[-1].id if has_more else None,
        scopes=call.caller.scopes,
    )


@pages.page("/keys/new", scope=Scope.KEYS_MANAGE)
def show_new_key(call: PageCall) -> View:
    return View("key_new.html", scopes=scopes_of(call.caller))


@pages.action("/keys/create", scope=Scope.KEYS_MANAGE)
def create_key(call: PageCall, form: KeyForm) -> View:
    created = call.console.create_key(
        **_owner(call, form),
        name=form.name,
        scopes=form.scopes or None,
        expires_in=form.expires_in,
        request_id=call.request_id,
    )
    call.request.state.target = created.key.id
    return View("key_created.html", created=created)


def _owner(call: PageCall, form: KeyForm) -> dict[str, str | None]:
    """Only an administrator chooses the owner: the console adds the owner of another caller."""
    if not call.caller.is_admin:
        return {}
    if form.whose == "owner" and not form.owner:
        raise BadArgument("owner", "", "the name of an owner; or choose an administrator")
    return {"owner": form.owner if form.whose == "owner" else None}


@pages.action("/keys/{key_id}/revoke", scope=Scope.KEYS_MANAGE)
def revoke_key(call: PageCall, key_id: str) -> Done:
    key = call.console.revoke_key(key_id, request_id=call.request_id)
    return Done("/keys", f"Key {key.name} ({key.id}) is revoked.", "Within a second, every server refuses it.")


@pages.action("/keys/{key_id}/link", scope=Scope.KEYS_MANAGE)
def create_link(call: PageCall, key_id: str) -> View:
    token = call.console.sign_in_link(key_id)
    return View("key_link.html", key_id=key_id, token=token, server=_server(call))


def _server(call: PageCall) -> str:
    """The address of this server, as the browser reached it."""
    url, root = call.request.url, call.request.scope.get("root_path", "")
    return f"{url.scheme}://{url.netloc}{root}"
