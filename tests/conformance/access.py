"""Keys of the HTTP API: stored hashed, found by their public id, revoked once; and the token that creates the first."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, INSTANT, MINUTE, Bench, at_once
from mulligan.errors import KeyExists, KeyNotFound, SetupRefused
from mulligan.records.admission import NewAuditEntry
from mulligan.records.key import Key, NewKey, Scope
from mulligan.records.web_session import IDLE_FOR, LASTS
from mulligan.store.requests import answer_format, to_once

READ = (Scope.JOBS_READ,)
TEN_MINUTES = timedelta(minutes=10)


class AccessRules(Bench):
    def test_a_key_is_stored_with_the_hash_of_its_token(self) -> None:
        key = self._api_key("k1", owner="acme", scopes=(Scope.JOBS_READ, Scope.JOBS_RETRY), expires_in=DAY)
        assert key == Key(
            id="k1",
            owner="acme",
            name="a key",
            scopes=(Scope.JOBS_READ, Scope.JOBS_RETRY),
            last_four="abcd",
            created_at=self.now,
            created_by="ann",
            expires_at=self.now + DAY,
        )
        found = self.store.api_key("k1")
        assert found is not None
        assert (found.key, found.digest, found.now, found.is_usable) == (key, "hash of k1", self.now, True)
        assert self.store.api_key("k2") is None

    def test_an_id_that_is_taken_is_not_taken_again(self) -> None:
        first = self._api_key("k1", owner="acme")
        assert self.store.create_api_key(self._new_api_key("k1", owner="other")) is None
        assert self.store.api_keys() == [first]
        assert self.store.audit() == []

    def test_a_request_creates_one_key(self) -> None:
        self._api_key("k1", owner="acme", request="r")
        with pytest.raises(KeyExists, match="'k1'"):
            self._api_key("k2", owner="acme", request="r")
        self._api_key("k3", owner="other", request="r")
        self._api_key("k4", request="r")
        with pytest.raises(KeyExists, match="'k4'"):
            self._api_key("k5", request="r")
        assert [key.id for key in self.store.api_keys()] == ["k1", "k3", "k4"]

    def test_of_two_requests_at_once_with_one_id_one_creates_a_key(self) -> None:
        answers = at_once([lambda name=name: self._api_key(name, request="r") for name in ("k1", "k2", "k3")])  # type: ignore[misc]
        assert sorted(type(answer).__name__ for answer in answers) == ["Key", "KeyExists", "KeyExists"]

    def test_a_key_expires_by_the_clock_of_the_store(self) -> None:
        self._api_key("k1", expires_in=HOUR)
        self.advance(HOUR - INSTANT)
        assert self._is_usable("k1")
        self.advance(INSTANT)
        assert not self._is_usable("k1")

    def test_a_revoked_key_stays_revoked_since_the_first_time(self) -> None:
        self._api_key("k1", owner="acme")
        first = self.store.revoke_api_key("k1")
        assert (first.revoked_at, self._is_usable("k1")) == (self.now, False)
        self.advance(HOUR)
        assert self.store.revoke_api_key("k1", owner="acme") == first
        assert self.store.api_keys() == [first]

    @pytest.mark.parametrize("owner", ["other", "", "ACME"])
    def test_the_key_of_another_owner_is_not_found(self, owner: str) -> None:
        self._api_key("k1", owner="acme")
        self._api_key("k2")
        for key in ("k1", "k2", "k3", "\0"):
            with pytest.raises(KeyNotFound):
                self.store.revoke_api_key(key, owner=owner)
        assert self.store.api_keys(owner=owner) == []
        assert self._is_usable("k1")

    def test_a_repeated_revocation_is_answered_as_the_first_time(self) -> None:
        self._api_key("k1")
        once = to_once("r", "revoke key", answer_format(Key), key="k1")
        first = self.store.revoke_api_key("k1", once=once)
        self.advance(HOUR)
        assert self.store.revoke_api_key("k1", once=once) == first

    def test_keys_are_listed_by_id_in_pages(self) -> None:
        for number in range(5):
            self._api_key(f"k{number}", owner="acme" if number % 2 else None)
        assert [key.id for key in self.store.api_keys(limit=2)] == ["k0", "k1"]
        assert [key.id for key in self.store.api_keys(limit=9, cursor="k1")] == ["k2", "k3", "k4"]
        assert [key.id for key in self.store.api_keys(owner="acme", cursor="k1")] == ["k3"]

    def test_there_are_keys_while_one_can_be_used(self) -> None:
        assert self._has_keys() == (False, False)
        self._api_key("k1", owner="acme")
        assert self._has_keys() == (True, False)
        self._api_key("k2", expires_in=HOUR)
        assert self._has_keys() == (True, True)
        self.advance(HOUR)
        assert self._has_keys() == (True, False)
        self.store.revoke_api_key("k1")
        assert self._has_keys() == (False, False)

    def test_a_change_of_a_key_and_its_entry_in_the_audit_are_one_transaction(self) -> None:
        entry = NewAuditEntry(id=self.ids(), actor="ann", action="create key", target="k1", owner="acme")
        self.store.create_api_key(self._new_api_key("k1", owner="acme"), audit=[entry])
        (found,) = self.store.audit()
        assert (found.actor, found.action, found.target, found.owner) == ("ann", "create key", "k1", "acme")
        with pytest.raises(KeyNotFound):
            self.store.revoke_api_key("k9", audit=[NewAuditEntry(id=self.ids(), actor="ann", action="revoke key")])
        assert self.store.audit() == [found]

    # The first key

    def test_a_setup_token_creates_one_key(self) -> None:
        self.store.offer_setup("hash", duration=TEN_MINUTES)
        key = self.store.create_api_key(self._new_api_key("k1"), setup="hash")
        assert key is not None and key.owner is None
        with pytest.raises(SetupRefused):
            self.store.create_api_key(self._new_api_key("k2"), setup="hash")
        assert [key.id for key in self.store.api_keys()] == ["k1"]

    def test_an_unknown_setup_token_leaves_the_known_one_usable(self) -> None:
        self.store.offer_setup("hash", duration=TEN_MINUTES)
        with pytest.raises(SetupRefused):
            self.store.create_api_key(self._new_api_key("k1"), setup="other")
        assert self.store.create_api_key(self._new_api_key("k2"), setup="hash") is not None

    def test_a_setup_token_expires(self) -> None:
        self.store.offer_setup("hash", duration=TEN_MINUTES)
        self.advance(TEN_MINUTES)
        with pytest.raises(SetupRefused):
            self.store.create_api_key(self._new_api_key("k1"), setup="hash")

    def test_no_setup_token_works_once_there_is_an_administrator(self) -> None:
        self.store.offer_setup("hash", duration=TEN_MINUTES)
        self._api_key("k1")
        with pytest.raises(SetupRefused):
            self.store.create_api_key(self._new_api_key("k2"), setup="hash")

    def test_of_two_setup_tokens_used_at_once_one_creates_a_key(self) -> None:
        for digest in ("one", "two"):
            self.store.offer_setup(digest, duration=TEN_MINUTES)
        answers = at_once([partial(self._set_up, token) for token in ("one", "two")])
        assert sorted(type(answer).__name__ for answer in answers) == ["Key", "SetupRefused"]
        assert len(self.store.api_keys()) == 1

    def test_expired_setup_tokens_are_pruned(self) -> None:
        self.store.offer_setup("hash", duration=MINUTE)
        assert self.store.prune_access(audited_before=None, limit=9) == 0
        self.advance(MINUTE + INSTANT)
        assert self.store.prune_access(audited_before=None, limit=9) == 1

    # Sessions of the dashboard

    def test_a_session_has_the_key_that_signed_in(self) -> None:
        self._api_key("k1", owner="acme")
        self.store.begin_web_session("hash", "k1")
        found = self.store.web_session("hash")
        assert found is not None and found.is_usable
        assert (found.stored.key.id, found.stored.key.owner, found.begun_at) == ("k1", "acme", self.now)
        assert self.store.web_session("other") is None

    def test_a_session_without_use_ends(self) -> None:
        self._session()
        self.advance(IDLE_FOR - INSTANT)
        assert self._is_signed_in()
        self.store.note_web_session("hash")
        self.advance(IDLE_FOR - INSTANT)
        assert self._is_signed_in()
        self.advance(INSTANT)
        assert not self._is_signed_in()

    def test_a_session_ends_after_its_time_whatever_its_use(self) -> None:
        self._session()
        for _ in range(LASTS // TEN_MINUTES - 1):
            self.advance(TEN_MINUTES)
            self.store.note_web_session("hash")
        assert self._is_signed_in()
        self.advance(TEN_MINUTES)
        assert not self._is_signed_in()

    def test_a_session_ends_with_its_key(self) -> None:
        self._session()
        self.store.revoke_api_key("k1")
        assert not self._is_signed_in()

    def test_a_session_that_was_ended_is_gone_and_its_end_is_in_the_audit_once(self) -> None:
        self._session()
        for _ in range(2):
            entry = NewAuditEntry(id=self.ids(), actor="ann", action="sign out")
            self.store.end_web_session("hash", audit=[entry])
        assert self.store.web_session("hash") is None
        assert [entry.action for entry in self.store.audit()] == ["sign out"]

    def test_a_link_signs_in_once_and_in_time(self) -> None:
        for digest in ("one", "two"):
            self.store.offer_sign_in(digest, "k1", duration=TEN_MINUTES)
        assert [self.store.take_sign_in("one") for _ in range(2)] == ["k1", None]
        assert self.store.take_sign_in("unknown") is None
        self.advance(TEN_MINUTES)
        assert self.store.take_sign_in("two") is None

    def test_of_two_callers_with_one_link_one_signs_in(self) -> None:
        self.store.offer_sign_in("one", "k1", duration=TEN_MINUTES)
        answers = at_once([partial(self.store.take_sign_in, "one")] * 2)
        assert sorted(answers, key=str) == [None, "k1"]

    def test_sessions_and_links_that_are_over_are_pruned(self) -> None:
        self._session()
        self.store.offer_sign_in("one", "k1", duration=TEN_MINUTES)
        assert self.store.prune_access(audited_before=None, limit=9) == 0
        self.advance(IDLE_FOR + INSTANT)
        assert self.store.prune_access(audited_before=None, limit=9) == 2
        assert self.store.web_session("hash") is None

    def _session(self) -> None:
        self._api_key("k1")
        self.store.begin_web_session("hash", "k1")

    def _is_signed_in(self) -> bool:
        found = self.store.web_session("hash")
        return found is not None and found.is_usable

    def _new_api_key(self, key_id: str, **fields: Any) -> NewKey:
        given = {"owner": None, "name": "a key", "scopes": READ, "last_four": "abcd", "created_by": "ann"}
        return NewKey(**{**given, "id": key_id, "digest": f"hash of {key_id}", **fields})

    def _api_key(self, key_id: str, **fields: Any) -> Key:
        key = self.store.create_api_key(self._new_api_key(key_id, **fields))
        assert key is not None
        return key

    def _set_up(self, token: str) -> Key | None:
        return self.store.create_api_key(self._new_api_key(token), setup=token)

    def _is_usable(self, key_id: str) -> bool:
        found = self.store.api_key(key_id)
        return found is not None and found.is_usable

    def _has_keys(self) -> tuple[bool, bool]:
        return self.store.has_api_keys(), self.store.has_api_keys(is_admin=True)
