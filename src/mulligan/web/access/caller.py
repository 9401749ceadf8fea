"""The caller of a request: a key, its owner, and what it allows."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from mulligan.records.key import Scope


@dataclass(frozen=True, slots=True)
class Caller:
    """`owner` is None for an administrator. `actor` is stored with what the caller does."""

    key: str
    owner: str | None
    actor: str
    scopes: frozenset[Scope]
    expires_at: datetime | None = None
    may_scrape: bool = False
    """It may read metrics, though it is no administrator."""

    @property
    def is_admin(self) -> bool:
        return self.owner is None

    @property
    def masked(self) -> Self:
        """The caller, who is not shown the secrets in arguments and results."""
        return replace(self, scopes=self.scopes - {Scope.ARGS_REVEAL})


# The caller of a route that needs no key.
ANONYMOUS = Caller(key="", owner="", actor="", scopes=frozenset())
# A Prometheus in one of the networks of the settings.
SCRAPER = Caller(key="", owner="", actor="", scopes=frozenset(), may_scrape=True)
