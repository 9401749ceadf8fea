"""Keys of the HTTP API: create, list and revoke them, and find the key of a token."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hmac import compare_digest

from mulligan.console.arguments import (
    FLAG,
    KEY_LIFE,
    KEY_NAME,
    NAME,
    PAGE_SIZE,
    REQUEST_ID,
    SCOPES,
    STRING,
    TIME,
    check,
)
from mulligan.errors import KeyNotAllowed, KeyNotFound, KeyRefused
from mulligan.failure.redact import bounded
from mulligan.records.admission import NewAuditEntry
from mulligan.records.key import ADMIN_ONLY, ADMIN_SCOPES, OWNER_SCOPES, CreatedKey, Key, NewKey, Scope
from mulligan.records.token import RandomBytes, digest_of, new_token, read_token
from mulligan.store.requests import answer_format, to_once
from mulligan.store.store import Store
from mulligan.values.duration import Duration, parse

SETUP_FOR = timedelta(minutes=10)
UNKNOWN_ACTOR = "unknown"

_KEY = answer_format(Key)
# Of 218 trillion ids.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """`secrets` draws unpredictable bytes."""

    store: Callable[[], Store]
    ids: Callable[[], str]
    secrets: RandomBytes

    @check(
        owner=KEY_NAME,
        name=KEY_NAME,
        scopes=SCOPES,
        expires_in=KEY_LIFE,
        within=SCOPES,
        expires_before=TIME,
        is_audited=FLAG,
        actor=STRING,
        request_id=REQUEST_ID,
    )
    def create(
        self,
        *,
        owner: str | None = None,
        name: str,
        scopes: Iterable[Scope | str] | None = None,
        expires_in: Duration | None = None,
        within: Collection[Scope] | None = None,
        expires_before: datetime | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> CreatedKey:
        """With `within`, no scope beyond these. With `is_audited`, the caller has recorded the change."""
        wanted = _choose(scopes, owner, within)
        life = None if expires_in is None else parse(expires_in)
        if expires_before is not None:
            left = expires_before - self.store().now()
            life = left if life is None else min(life, left)
        return self._store(owner, name, wanted, life, actor, request_id=request_id, is_audited=is_audited)

    def set_up(self, token: str, *, name: str) -> CreatedKey:
        """Create the first administrator's key for a setup token, which is used up. Raises SetupRefused."""
        return self._store(None, name, ADMIN_SCOPES, None, "setup", setup=digest_of(token))

    def _store(
        self,
        owner: str | None,
        name: str,
        scopes: tuple[Scope, ...],
        life: timedelta | None,
        actor: str | None,
        *,
        setup: str | None = None,
        request_id: str | None = None,
        is_audited: bool = False,
    ) -> CreatedKey:
        for _ in range(_TRIES):
            token = new_token(self.secrets)
            new = NewKey(
                id=token.id,
                owner=owner,
                name=name,
                scopes=scopes,
                digest=token.digest,
                last_four=token.last_four,
                created_by=None if actor is None else bounded(actor),
                expires_in=life,
                request=request_id,
            )
            audit = [] if is_audited else [self._entry("create key", token.id, owner, actor)]
            key = self.store().create_api_key(new, audit=audit, setup=setup)
            if key is not None:
                return CreatedKey(key=key, token=token.text)
        raise AssertionError(f"{_TRIES} random ids of keys were taken")

    @check(owner=KEY_NAME, limit=PAGE_SIZE, cursor=NAME)
    def list_keys(self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None) -> list[Key]:
        return self.store().api_keys(owner=owner, limit=limit, cursor=cursor)

    @check(key_id=NAME, owner=KEY_NAME, within=SCOPES, is_audited=FLAG, actor=STRING, request_id=REQUEST_ID)
    def revoke(
        self,
        key_id: str,
        *,
        owner: str | None = None,
        within: Collection[Scope] | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Key:
        """With `within`, no key that has a scope beyond these."""
        if within is not None:
            self._refuse_stronger(key_id, owner, within)
        once = to_once(request_id, "revoke key", _KEY, owner, key=key_id)
        audit = [] if is_audited else [self._entry("revoke key", key_id, owner, actor)]
        return self.store().revoke_api_key(key_id, owner=owner, audit=audit, once=once)

    def _refuse_stronger(self, key_id: str, owner: str | None, within: Collection[Scope]) -> None:
        found = self.store().api_key(key_id)
        if found is None or owner not in (None, found.key.owner):
            raise KeyNotFound(key_id)
        if beyond := [scope for scope in found.key.scopes if scope not in within]:
            reason = f"it has {', '.join(beyond)}, which the key that revokes it does not have"
            raise KeyNotAllowed(reason, beyond, verb="revoked")

    @check(token=STRING)
    def find(self, token: str) -> Key:
        """The usable key of this token. Raises KeyRefused."""
        given = read_token(token)
        found = None if given is None else self.store().api_key(given.id)
        if given is None or found is None or not compare_digest(found.digest, given.digest) or not found.is_usable:
            raise KeyRefused
        return found.key

    def has_any(self, *, is_admin: bool = False) -> bool:
        """Whether there is a usable key; with `is_admin`, an administrator's."""
        return self.store().has_api_keys(is_admin=is_admin)

    def offer_setup(self) -> str | None:
        """A token, valid once and for ten minutes, that creates the first administrator's key; None if there is such a
        key."""
        if self.has_any(is_admin=True):
            return None
        token = self.secrets(32).hex()
        self.store().offer_setup(digest_of(token), duration=SETUP_FOR)
        return token

    def _entry(self, action: str, key_id: str, owner: str | None, actor: str | None) -> NewAuditEntry:
        return NewAuditEntry(
            id=self.ids(), actor=bounded(actor or UNKNOWN_ACTOR), action=action, target=key_id, owner=owner
        )


def _choose(
    scopes: Iterable[Scope | str] | None, owner: str | None, within: Collection[Scope] | None
) -> tuple[Scope, ...]:
    usual = ADMIN_SCOPES if owner is None else OWNER_SCOPES
    if scopes is None:
        found = tuple(scope for scope in usual if within is None or scope in within)
        if not found:
            raise KeyNotAllowed("the key that creates it has none of the usual scopes; name those it shall have")
        return found
    # In their own order, each once.
    given = set(map(Scope, scopes))
    wanted = tuple(scope for scope in Scope if scope in given)
    if owner is not None and (beyond := [scope for scope in wanted if scope in ADMIN_ONLY]):
        raise KeyNotAllowed(f"only an administrator's key can have {', '.join(beyond)}", beyond)
    if within is not None and (beyond := [scope for scope in wanted if scope not in within]):
        raise KeyNotAllowed(f"the key that creates it does not have {', '.join(beyond)} itself", beyond)
    return wanted
