"""A new limit with many jobs to count takes several claims. Meanwhile all other jobs run."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from postgres_suite import PostgresBench

from conformance.bench import KIND, SECOND, Bench
from mulligan.records.limit import LimitBook
from mulligan.store import limits
from mulligan.store.sqlite import SqliteStore

OTHER, KNOWN = "other", "known"
# Counted by three claims.
MANY = 2 * limits.PASSES + 1


class NewLimits(Bench):
    @pytest.fixture(autouse=True)
    def _counts_slowly(self, _arranged: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(limits, "SWEPT_AT_ONCE", 1)
        yield
        self.store.limit_by(LimitBook)
        for _ in range(5):
            self.claim("nothing")

    def limit(self, **subjects: dict[str, int]) -> None:
        book = LimitBook(**subjects)
        self.store.limit_by(lambda: book)

    @pytest.mark.parametrize(("new", "one"), [({"kinds": {KIND: 2}}, {}), ({"queues": {"bulk": 2}}, {"queue": "bulk"})])
    def test_what_it_is_not_about_is_claimed_while_it_counts(
        self, new: dict[str, dict[str, int]], one: dict[str, Any]
    ) -> None:
        self.limit(kinds={KNOWN: 1})
        self.claim()
        before = {self.enqueue(**one).id for _ in range(MANY)}
        for kind in (OTHER, OTHER, KNOWN, KNOWN):
            self.enqueue(kind)
        self.limit(kinds={KNOWN: 1} | new.get("kinds", {}), queues=new.get("queues", {}))
        claimed = self.claimed(KIND, OTHER, KNOWN)
        assert sorted(lease.kind for lease in claimed.leases) == [KNOWN, OTHER, OTHER]
        assert claimed.next_due is not None and claimed.next_due < SECOND, "it looks again soon"
        later = [lease.fence.id for _ in range(4) for lease in self.claim(KIND, OTHER, KNOWN)]
        assert len(later) == 2 and before.issuperset(later)

    @pytest.mark.parametrize("owner", ["acme", "*"])
    def test_one_of_an_owner_keeps_only_the_jobs_of_that_owner_waiting_until_it_counts(self, owner: str) -> None:
        before = {self.enqueue(owner="acme").id for _ in range(MANY)}
        others = {self.enqueue().id, self.enqueue(OTHER, priority=9).id}
        self.limit(owners={owner: 2})
        first = self.claimed(KIND, OTHER)
        assert {lease.fence.id for lease in first.leases} == others
        assert first.next_due is not None and first.next_due < SECOND, "it looks again soon"
        later = [lease.fence.id for _ in range(4) for lease in self.claim(KIND, OTHER)]
        assert len(later) == 2 and before.issuperset(later)

    def test_jobs_of_other_owners_in_the_same_lane_are_claimed_while_one_of_an_owner_counts(self) -> None:
        for _ in range(MANY):
            self.enqueue(owner="acme")
        others = {self.enqueue(owner="other").id for _ in range(3)}
        self.limit(owners={"acme": 1, "late": 5})
        assert {lease.fence.id for lease in self.claim(limit=3)} == others
        assert sum(len(self.claim()) for _ in range(4)) == 1

    def test_more_new_ones_than_can_be_named_keep_all_waiting_until_they_count(self) -> None:
        kinds = {f"kind-{n:03}": 1 for n in range(2 * limits.GATES)}
        self.store.enqueue([self.new(kind) for kind in [*kinds, *kinds, OTHER]])
        self.limit(kinds=kinds)
        counts = [len(self.claim(OTHER, *kinds, limit=200)) for _ in range(10)]
        assert counts[0] == 0 and sum(counts) == len(kinds) + 1


class TestOnSqlite(NewLimits):
    def open_store(self, now: Callable[[], datetime]) -> SqliteStore:
        return SqliteStore("sqlite:///:memory:", now=now, threaded=False, services=self.services)


class TestOnPostgres(PostgresBench, NewLimits):
    @pytest.fixture
    def address(self, database: str) -> str:
        return database
