"""Ids of which only the beginning or the end is given."""

from collections.abc import Callable
from dataclasses import dataclass

from mulligan.console.arguments import ID_OF, NAME, check
from mulligan.errors import (
    AmbiguousId,
    BatchNotFound,
    DeliveryNotFound,
    GroupNotFound,
    HookNotFound,
    JobNotFound,
    KeyNotFound,
    MulliganError,
    RedriveNotFound,
    SubscriptionNotFound,
)
from mulligan.store.messages import NEWEST_IDS
from mulligan.store.store import Store
from mulligan.values.ids import is_complete

SHORTEST_PART = 6
MOST_CANDIDATES = 5

_NOT_FOUND: dict[str, Callable[[str, str], MulliganError]] = {
    "job": JobNotFound,
    "batch": BatchNotFound,
    "redrive": RedriveNotFound,
    "group": GroupNotFound,
    "key": KeyNotFound,
    "subscription": SubscriptionNotFound,
    "delivery": DeliveryNotFound,
    "hook": HookNotFound,
}


@dataclass(frozen=True, slots=True)
class IdSearch:
    store: Callable[[], Store]

    @check(what=ID_OF, part=NAME, owner=NAME)
    def find(self, what: str, part: str, *, owner: str | None = None) -> str:
        """Return the one id that begins or ends with `part`. A complete id is returned without a query."""
        if is_complete(what, part):
            return part
        found = self.store().find_ids(what, part, owner=owner, limit=MOST_CANDIDATES + 1)
        if part in found:
            return part
        if not found or len(part) < SHORTEST_PART:
            raise _NOT_FOUND[what](part, _hint(part))
        if len(found) > 1:
            raise AmbiguousId(what, part, found[:MOST_CANDIDATES], is_cut=len(found) > MOST_CANDIDATES)
        return found[0]


def _hint(part: str) -> str:
    if len(part) < SHORTEST_PART:
        return f"; give the whole id, or at least {SHORTEST_PART} characters of its beginning or its end"
    return f": no id begins with that, and none of the newest {NEWEST_IDS:,} ends with it"
