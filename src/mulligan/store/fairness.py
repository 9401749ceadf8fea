"""Submit rates and live jobs of owners, and ranks in fair queues.

In a fair queue a job has the rank `max(V, last rank of the owner) + 1/weight`, where V is the highest rank claimed so
far. So the next job of an owner without waiting jobs comes right after the one being claimed, however many jobs others
have waiting; running alone creates no debt. Ranks are microseconds, as in plain queues, so that lanes of both kinds can
be merged.

An enqueue does this around its insert, in the same transaction. Locks are taken in one order: buckets by owner, shares
by queue, priority and owner, then jobs. A job without a limit and outside fair queues costs no statement.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

from mulligan.errors import SubmitRateExceeded, TooManyJobs
from mulligan.records.rate import Rate, TokenBucket
from mulligan.store.rows import to_duration, to_json
from mulligan.store.session import Session, Statement, Statements, Steps

# After so long without turns a fair queue restarts at the present time: else its new jobs would look older than those
# of plain queues.
IDLE = timedelta(minutes=1)
FORGOTTEN_AT_ONCE = 500
# Microseconds. Then jobs that a process stored without knowing the limit are looked for again.
COUNTED_FOR = to_duration(timedelta(days=1))
# The columns that decide whether a job exists already.
TWIN = ("id", "owner", "kind", "dedupe_key", "dedupe_scope", "dedupe_for")

Row = dict[str, Any]

# The step of a job of weight 1, in microseconds: so small that a fair queue does not run ahead of the clock.
ONE_JOB = 1_000
_MICROSECOND = timedelta(microseconds=1)
_SECOND = 1_000_000


def rank_step(weight: float) -> int:
    """Return how far a job advances the rank of its owner."""
    return max(1, round(ONE_JOB / weight))


class Share(NamedTuple):
    """The jobs of one owner in one queue and priority."""

    queue: str
    priority: int
    owner: str


def to_share(row: Mapping[str, Any]) -> Share:
    return Share(row["queue"], row["priority"], row["owner"])


def sum_steps(rows: Iterable[Row]) -> dict[Share, int]:
    """Return how far these jobs advance each share, in the order of locking."""
    found: dict[Share, int] = defaultdict(int)
    for row in rows:
        found[to_share(row)] += row["step"]
    return dict(sorted(found.items()))


def give_ranks(rows: Iterable[Row], starts: Mapping[Share, int]) -> None:
    """Give each job its rank, one step after the previous job of its owner."""
    last = dict(starts)
    for row in rows:
        share = to_share(row)
        row["rank"] = last[share] = last[share] + row["step"]


def find_returned(rows: Sequence[Row], starts: Mapping[Share, int], stored: Mapping[str, Row]) -> dict[Share, int]:
    """Return the last rank of shares that took more than was stored: jobs that existed already take no turn."""
    ends = dict(starts)
    for row in rows:
        if _is_stored(row, stored):
            ends[to_share(row)] = row["rank"]
    wrong = {to_share(row) for row in rows if not _is_stored(row, stored)}
    return {share: ends[share] for share in sorted(wrong)}


def _is_stored(row: Row, stored: Mapping[str, Row]) -> bool:
    # An id that was given twice is stored once, with one of the ranks.
    found = stored.get(row["id"])
    return found is not None and found["rank"] == row["rank"]


@dataclass(frozen=True, slots=True)
class SubmitBucket:
    """How fast an owner may submit. The bucket had `left` tokens `at` that time; None means full."""

    owner: str
    rate: Rate
    now: int
    left: float | None = None
    at: int = 0

    @property
    def tokens(self) -> TokenBucket:
        burst = self.rate.burst
        # A time in the future is from before the clock was set back. How long ago that was is unknown.
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
        """Return the row to store after this many jobs were submitted."""
        left = self.tokens.without(count)
        full_at = self.now + left.time_until(left.burst)
        return {"owner": self.owner, "remaining": left.tokens, "at": self.now, "full_at": full_at}


@dataclass(frozen=True, slots=True)
class LiveLimit:
    """How many jobs of an owner may be waiting, queued or running, and how many are."""

    owner: str
    most: int
    live: int
    is_complete: bool
    """No job can be missing in the count."""

    @property
    def missing(self) -> int:
        """How many more jobs would be beyond the limit."""
        return max(0, self.most + 1 - self.live)

    def fits(self, count: int) -> bool:
        # A call that stores nothing is not refused.
        return not count or self.live + count <= self.most

    def refusal(self, count: int) -> TooManyJobs:
        return TooManyJobs(self.owner, self.most, self.live, wanted=count)


class SubmitOperations:
    def __init__(self, sql: Statements) -> None:
        self._sql = sql

    def admit(self, rows: Sequence[Row], now: int | None) -> Steps[list[SubmitBucket]]:
        """Lock the owners that have a limit, and return the buckets of those with a rate.

        Raises SubmitRateExceeded or TooManyJobs before any job is written.
        """
        limited = [row for row in rows if "rate" in row or "max_live" in row]
        if not limited:
            return []
        rates: dict[str, Rate] = {row["owner"]: row["rate"] for row in limited if "rate" in row}
        most: dict[str, int] = {row["owner"]: row["max_live"] for row in limited if "max_live" in row}
        owners = to_json(sorted({*rates, *most}))
        locked = yield Statement(self._sql["submit_lock"], {"owners": owners, "now": now})
        buckets = [
            SubmitBucket(row["owner"], rates[row["owner"]], row["now"], row["remaining"], row["at"])
            for row in locked
            if row["owner"] in rates
        ]
        live = yield from self._count_live(most, locked[0]["now"])
        yield from self._refuse([*buckets, *live], limited, now)
        for limit in live:
            if not limit.is_complete:
                adopted = yield from self._adopt(limit, locked[0]["now"])
                yield from self._refuse([adopted], limited, now)
        return buckets

    def _refuse(self, limits: Sequence[SubmitBucket | LiveLimit], rows: Sequence[Row], now: int | None) -> Steps[None]:
        wanted = Counter(row["owner"] for row in rows)
        if not all(limit.fits(wanted[limit.owner]) for limit in limits):
            wanted = yield from self._count_new(rows, now)
        for limit in limits:
            if not limit.fits(wanted[limit.owner]):
                raise limit.refusal(wanted[limit.owner])

    def _count_live(self, most: Mapping[str, int], now: int) -> Steps[list[LiveLimit]]:
        """Count the live jobs of these owners, up to one more than they may have. After the lock, in a separate
        statement: it sees all that were stored before."""
        if not most:
            return []
        values = {"owners": to_json(list(most)), "limit": max(most.values()) + 1}
        counted = yield Statement(self._sql["live_counts"], values)
        return [
            LiveLimit(row["owner"], most[row["owner"]], row["number"], _is_complete(row["counted_until"], now))
            for row in counted
        ]

    def _adopt(self, limit: LiveLimit, now: int) -> Steps[LiveLimit]:
        """Count live jobs that were stored without the limit, as many as matter."""
        found = yield Statement(self._sql["live_uncounted"], {"owner": limit.owner, "limit": limit.missing})
        if found:
            yield Statement(self._sql["live_adopt"], {"ids": to_json([row["id"] for row in found])})
        if len(found) < limit.missing:
            yield Statement(self._sql["live_complete"], {"owner": limit.owner, "until": now + COUNTED_FOR})
        return replace(limit, live=limit.live + len(found))

    def may_have_uncounted(self, session: Session, owner: str, most: int) -> bool:
        """Whether an owner that was refused may have other live jobs than were counted, and they matter."""
        found = session.play(self._count_live({owner: most}, session.moment()))
        return not any(limit.is_complete or not limit.missing for limit in found)

    def adopt(self, session: Session, owner: str, most: int) -> None:
        """Count the live jobs of an owner that was refused. A refused enqueue stores nothing, so the next one would
        look for them again."""
        session.rows("submit_lock", owners=to_json([owner]))
        for limit in session.play(self._count_live({owner: most}, session.moment())):
            session.play(self._adopt(limit, session.moment()))

    def _count_new(self, rows: Sequence[Row], now: int | None) -> Steps[Counter[str]]:
        """Count the jobs of each owner that do not exist yet."""
        wanted = [{**{name: row[name] for name in TWIN}, "n": n} for n, row in enumerate(rows)]
        found = yield Statement(self._sql["submit_twins"], {"jobs": to_json(wanted), "now": now})
        twins = {row["n"] for row in found}
        seen: set[tuple[Any, ...]] = set()
        new: Counter[str] = Counter()
        for n, row in enumerate(rows):
            names = {(row["id"],)} | ({_key(row)} if row["dedupe_key"] is not None else set())
            new[row["owner"]] += n not in twins and not names & seen
            seen |= names
        return new

    def assign_ranks(self, rows: Sequence[Row], now: int | None) -> Steps[dict[Share, int]]:
        """Give jobs of fair queues their ranks. Return the rank that each share started from."""
        fair = [row for row in rows if "step" in row]
        if not fair:
            return {}
        wanted = sum_steps(fair)
        lanes = sorted({(share.queue, share.priority) for share in wanted})
        opened = [{"queue": queue, "priority": priority} for queue, priority in lanes]
        yield Statement(self._sql["turns_open"], {"places": to_json(opened), "now": now})
        shares = [{**share._asdict(), "taken": taken} for share, taken in wanted.items()]
        taken = yield Statement(self._sql["shares_take"], {"shares": to_json(shares)})
        ends = {Share(row["queue"], row["priority"], row["owner"]): row["rank"] for row in taken}
        starts = {share: ends[share] - total for share, total in wanted.items()}
        give_ranks(fair, starts)
        return starts

    def charge(
        self,
        rows: Sequence[Row],
        stored: Mapping[str, Row],
        *,
        buckets: Sequence[SubmitBucket],
        starts: Mapping[Share, int],
    ) -> Steps[None]:
        """Charge owners after the insert. Jobs that existed already cost nothing, neither rate nor turns."""
        new = Counter(row["owner"] for row in stored.values())
        if charges := [bucket.after(new[bucket.owner]) for bucket in buckets if new[bucket.owner]]:
            yield Statement(self._sql["submit_charge"], {"charges": to_json(charges)})
        fair = [row for row in rows if "step" in row]
        if ends := find_returned(fair, starts, stored):
            shares = [{**share._asdict(), "rank": rank} for share, rank in ends.items()]
            yield Statement(self._sql["shares_return"], {"shares": to_json(shares)})

    def forget(self, session: Session) -> None:
        """Delete a bounded number of buckets, shares and turns that equal their initial state."""
        values = {"idle": to_duration(IDLE), "limit": FORGOTTEN_AT_ONCE}
        session.rows("submit_forget", values)
        session.rows("shares_forget", values)
        idle = session.rows("turns_idle", values)
        if idle:
            # In a separate statement: it sees all that was committed before the rows were locked.
            session.rows("turns_forget", {"places": to_json(idle)})


def _is_complete(counted_until: int | None, now: int) -> bool:
    # A time that is too far is from before the clock was set back.
    return now < (counted_until or 0) <= now + COUNTED_FOR


def _key(row: Row) -> tuple[str, ...]:
    return row["owner"], row["kind"], row["dedupe_key"]
