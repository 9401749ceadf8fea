"""The arithmetic of owners, without a store: ranks in a fair queue, and how many jobs a rate lets through.

In a fair queue a job stands at `max(V, owner's last rank) + 1/weight`, where V is the highest rank claimed so far. So
the next job of an owner who has nothing waiting comes right after what is being claimed, whatever others have waiting;
who was away gains nothing by it. Ranks are microseconds, as in plain queues, so that lanes of both sorts can be merged.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from mulligan.errors import SubmitRateExceeded
from mulligan.records.rate import Rate, TokenBucket

Row = dict[str, Any]

# What a job of weight 1 counts, in microseconds: so small that a fair queue does not run ahead of the clock.
ONE_JOB = 1_000
_MICROSECOND = timedelta(microseconds=1)
_SECOND = 1_000_000


def step(weight: float) -> int:
    """How far a job moves its owner on."""
    return max(1, round(ONE_JOB / weight))


class Share(NamedTuple):
    """The jobs of one owner in one queue and priority."""

    queue: str
    priority: int
    owner: str


def share_of(row: Mapping[str, Any]) -> Share:
    return Share(row["queue"], row["priority"], row["owner"])


def totals(rows: Iterable[Row]) -> dict[Share, int]:
    """How far these jobs move each owner on, in the order in which shares are to be locked."""
    found: dict[Share, int] = defaultdict(int)
    for row in rows:
        found[share_of(row)] += row["step"]
    return dict(sorted(found.items()))


def give_ranks(rows: Iterable[Row], starts: Mapping[Share, int]) -> None:
    """Each job its rank: in their order, one step behind the owner's job before it."""
    last = dict(starts)
    for row in rows:
        share = share_of(row)
        row["rank"] = last[share] = last[share] + row["step"]


def returned(rows: Sequence[Row], starts: Mapping[Share, int], stored: Mapping[str, Row]) -> dict[Share, int]:
    """The last rank of owners who took more than was stored for them: jobs that were there already take no turn."""
    ends = dict(starts)
    for row in rows:
        if _is_stored(row, stored):
            ends[share_of(row)] = row["rank"]
    wrong = {share_of(row) for row in rows if not _is_stored(row, stored)}
    return {share: ends[share] for share in sorted(wrong)}


def _is_stored(row: Row, stored: Mapping[str, Row]) -> bool:
    # An id that was given twice is stored once, with one of the ranks.
    found = stored.get(row["id"])
    return found is not None and found["rank"] == row["rank"]


@dataclass(frozen=True, slots=True)
class Bucket:
    """How fast an owner may submit. There were `left` jobs in it `at` that time; None is as many as go in."""

    owner: str
    rate: Rate
    now: int
    left: float | None = None
    at: int = 0

    @property
    def tokens(self) -> TokenBucket:
        burst = self.rate.burst
        # A time in the future is from before the clock was set back: how long ago that was is not known.
        if self.left is None or self.at > self.now + _SECOND:
            return TokenBucket(self.rate.per_second, burst, burst)
        return TokenBucket(self.rate.per_second, burst, self.left).after(self.now - self.at)

    def fits(self, count: int) -> bool:
        return self.tokens.has(count)

    def refusal(self, count: int) -> SubmitRateExceeded:
        burst, wait = self.rate.burst, self.tokens.time_until(count)
        return SubmitRateExceeded(
            self.owner, str(self.rate), count, burst=burst, retry_after=None if count > burst else wait * _MICROSECOND
        )

    def after(self, count: int) -> Row:
        """What is to be kept of it, once so many were taken out."""
        left = self.tokens.without(count)
        full_at = self.now + left.time_until(left.burst)
        return {"owner": self.owner, "remaining": left.tokens, "at": self.now, "full_at": full_at}
