"""Owners in an enqueue: may they submit so fast, and which rank do their jobs get in a fair queue?

The same steps for every store, around its own insert and in the same transaction. Locks are taken in one order:
buckets by owner, then shares by queue, priority and owner, then jobs. A job that is neither limited nor in a fair queue
costs no statement.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from mulligan.records.rate import Rate
from mulligan.store.fairness import Bucket, Row, Share, give_ranks, returned, totals
from mulligan.store.rows import to_duration, to_json
from mulligan.store.script import Statement, Steps
from mulligan.store.session import Session
from mulligan.store.statements import Statements

# A queue whose turns nobody takes starts anew at the present time after so long: else jobs that come then would look
# older than those of plain queues.
IDLE = timedelta(minutes=1)
FORGOTTEN_AT_ONCE = 500
# What tells whether a job is there already.
TWIN = ("id", "owner", "kind", "dedupe_key", "dedupe_scope", "dedupe_for")


class Submissions:
    def __init__(self, sql: Statements) -> None:
        self._sql = sql

    def admit(self, rows: Sequence[Row], now: int | None) -> Steps[list[Bucket]]:
        """The buckets of owners who are limited, locked. Raises SubmitRateExceeded, before any job is written."""
        limited = [row for row in rows if "rate" in row]
        if not limited:
            return []
        rates: dict[str, Rate] = {row["owner"]: row["rate"] for row in limited}
        locked = yield Statement(self._sql["submit_lock"], {"owners": to_json(sorted(rates)), "now": now})
        buckets = [Bucket(row["owner"], rates[row["owner"]], row["now"], row["remaining"], row["at"]) for row in locked]
        wanted = Counter(row["owner"] for row in limited)
        if not all(bucket.fits(wanted[bucket.owner]) for bucket in buckets):
            wanted = yield from self._news(limited, now)
        for bucket in buckets:
            if not bucket.fits(wanted[bucket.owner]):
                raise bucket.refusal(wanted[bucket.owner])
        return buckets

    def _news(self, rows: Sequence[Row], now: int | None) -> Steps[Counter[str]]:
        """How many of each owner's are not there already."""
        wanted = [{**{name: row[name] for name in TWIN}, "n": n} for n, row in enumerate(rows)]
        found = yield Statement(self._sql["submit_twins"], {"jobs": to_json(wanted), "now": now})
        twins = {row["n"] for row in found}
        seen: set[tuple[Any, ...]] = set()
        news: Counter[str] = Counter()
        for n, row in enumerate(rows):
            names = {(row["id"],)} | ({_key(row)} if row["dedupe_key"] is not None else set())
            news[row["owner"]] += n not in twins and not names & seen
            seen |= names
        return news

    def rank(self, rows: Sequence[Row], now: int | None) -> Steps[dict[Share, int]]:
        """Give jobs of fair queues their ranks; from where each owner's began."""
        fair = [row for row in rows if "step" in row]
        if not fair:
            return {}
        wanted = totals(fair)
        places = sorted({(share.queue, share.priority) for share in wanted})
        opened = [{"queue": queue, "priority": priority} for queue, priority in places]
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
        buckets: Sequence[Bucket],
        starts: Mapping[Share, int],
    ) -> Steps[None]:
        """After the insert: what was there already costs nothing, neither of the rate nor of the share."""
        news = Counter(row["owner"] for row in stored.values())
        if charges := [bucket.after(news[bucket.owner]) for bucket in buckets if news[bucket.owner]]:
            yield Statement(self._sql["submit_charge"], {"charges": to_json(charges)})
        fair = [row for row in rows if "step" in row]
        if ends := returned(fair, starts, stored):
            shares = [{**share._asdict(), "rank": rank} for share, rank in ends.items()]
            yield Statement(self._sql["shares_return"], {"shares": to_json(shares)})

    def forget(self, session: Session, now: int | None) -> None:
        """A bounded number of those who have what they would have if nothing were known of them."""
        values = {"now": now, "idle": to_duration(IDLE), "limit": FORGOTTEN_AT_ONCE}
        session.rows("submit_forget", values)
        session.rows("shares_forget", values)
        idle = session.rows("turns_idle", values)
        if idle:
            # In a statement of its own: it sees all that was committed before these were locked.
            session.rows("turns_forget", {"places": to_json(idle)})


def _key(row: Row) -> tuple[str, ...]:
    return row["owner"], row["kind"], row["dedupe_key"]
