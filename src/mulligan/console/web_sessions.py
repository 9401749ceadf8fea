"""Sessions of the dashboard: sign in with a key or a one-time link, and sign out."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from mulligan.console.arguments import FLAG, KEY_NAME, NAME, SCOPES, STRING, check
from mulligan.errors import KeyNotAllowed, KeyNotFound, KeyRefused, LinkRefused
from mulligan.failure.redact import bounded
from mulligan.records.admission import NewAuditEntry
from mulligan.records.key import Key, Scope
from mulligan.records.token import RandomBytes, digest_of
from mulligan.records.web_session import LINK_LASTS, WebSession
from mulligan.store.store import Store

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class WebSessions:
    """`secrets` draws unpredictable bytes. Tokens are not stored, only their hashes."""

    store: Callable[[], Store]
    ids: Callable[[], str]
    secrets: RandomBytes

    def begin(self, key: Key, *, ip: str | None = None) -> str:
        """Return the token of a new session of this key."""
        token = self.secrets(TOKEN_BYTES).hex()
        self.store().begin_web_session(digest_of(token), key.id, audit=[self._entry("sign in", key, ip)])
        return token

    def find(self, token: str) -> WebSession:
        """Raises KeyRefused for a session that is unknown or over, and for one whose key is."""
        found = self.store().web_session(digest_of(token))
        if found is None or not found.is_usable:
            raise KeyRefused
        return found

    def note_use(self, token: str) -> None:
        self.store().note_web_session(digest_of(token))

    def end(self, token: str, *, ip: str | None = None) -> None:
        """A session that is over already stays so."""
        digest = digest_of(token)
        found = self.store().web_session(digest)
        if found is not None:
            self.store().end_web_session(digest, audit=[self._entry("sign out", found.stored.key, ip)])

    @check(key_id=NAME, owner=KEY_NAME, within=SCOPES, is_audited=FLAG, actor=STRING)
    def offer_link(
        self,
        key_id: str,
        *,
        owner: str | None = None,
        within: Collection[Scope] | None = None,
        is_audited: bool = False,
        actor: str | None = None,
    ) -> str:
        """Return a token, valid once and for ten minutes, that signs in with this key. With `owner`, only for a key of
        this owner; with `within`, only for one without scopes beyond these. Raises KeyNotFound and KeyNotAllowed."""
        found = self.store().api_key(key_id)
        if found is None or not found.is_usable or (owner is not None and found.key.owner != owner):
            raise KeyNotFound(key_id)
        if within is not None and (beyond := [scope for scope in found.key.scopes if scope not in within]):
            raise KeyNotAllowed(f"the key that asks for the link does not have {', '.join(beyond)} itself", beyond)
        token = self.secrets(TOKEN_BYTES).hex()
        audit = [] if is_audited else [self._entry("offer sign-in link", found.key, None, actor)]
        self.store().offer_sign_in(digest_of(token), key_id, duration=LINK_LASTS, audit=audit)
        return token

    def take_link(self, token: str) -> Key:
        """Use up a one-time link. Raises LinkRefused."""
        key_id = self.store().take_sign_in(digest_of(token))
        found = None if key_id is None else self.store().api_key(key_id)
        if found is None or not found.is_usable:
            raise LinkRefused
        return found.key

    def _entry(self, action: str, key: Key, ip: str | None, actor: str | None = None) -> NewAuditEntry:
        who = bounded(actor or f"{key.name} (key {key.id})")
        return NewAuditEntry(id=self.ids(), actor=who, action=action, target=key.id, key=key.id, owner=key.owner, ip=ip)
