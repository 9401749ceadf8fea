"""Faults on demand, in front of the leaderboard's real answers."""

import threading
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Kind = Literal["rate_limited", "broken", "silent", "slow", "endless", "garbage", "cut"]


class Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`times` answers are wrong: those of a route, or only those about one run or one category."""

    kind: Kind
    route: Literal["runs", "replay"] = "replay"
    run: str | None = None
    category: str | None = None
    times: int = 1
    retry_after: str | None = None
    """The header of a `rate_limited` or `broken` answer: seconds or a date."""


class Faults:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[Fault] = []
        self.made = 0

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._pending.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._pending.clear()

    def take(self, route: str, *, run: str | None = None, category: str | None = None) -> Fault | None:
        """The fault of this answer, if there is one."""
        with self._lock:
            for position, fault in enumerate(self._pending):
                if fault.route == route and fault.run in (None, run) and fault.category in (None, category):
                    rest = replace(fault, times=fault.times - 1)
                    self._pending[position : position + 1] = [rest] if rest.times > 0 else []
                    self.made += 1
                    return fault
            return None
