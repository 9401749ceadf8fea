"""The PostgreSQL store: the whole suite directly, every rule through a proxy that pools transactions, and the hints
without NOTIFY.

Behind the proxy nothing is notified either, so every rule is held with and without NOTIFY. `MULLIGAN_SOAK=1` runs all
cases through the proxy, and once more without NOTIFY on direct connections.
"""

import pytest
from postgres_suite import PostgresBench, PostgresSuite

from conformance.bench import IS_SOAK
from conformance.claim import ClaimRules
from conformance.enqueue import EnqueueRules
from conformance.fence import FenceRules
from conformance.reading import ReadingRules
from conformance.retries import GeneralSettle, RetryRules
from conformance.settle import SettleRules


class TestPostgres(PostgresSuite):
    @pytest.fixture
    def address(self, database: str) -> str:
        return database


class TestPostgresThroughPgbouncer(PostgresSuite):
    gives_hints = False
    every_case = IS_SOAK

    @pytest.fixture
    def address(self, proxied: str) -> str:
        return proxied


class WithoutNotify(PostgresBench):
    gives_hints = False
    every_case = IS_SOAK

    @pytest.fixture
    def address(self, database: str) -> str:
        return database + "?notify=off"


class TestPostgresWithoutNotify(WithoutNotify, EnqueueRules, ClaimRules, SettleRules, ReadingRules):
    """The operations that send a hint or wait for one."""


class TestPostgresGeneralSettle(GeneralSettle, PostgresBench, FenceRules, SettleRules, RetryRules):
    @pytest.fixture
    def address(self, database: str) -> str:
        return database


if IS_SOAK:

    class TestEveryRuleWithoutNotify(WithoutNotify, PostgresSuite):
        pass
