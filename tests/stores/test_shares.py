"""The arithmetic of turns, against the simplest queue: the owner that was served least comes next."""

from collections import Counter
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mulligan.records.rate import parse_rate
from mulligan.store.fairness import (
    ONE_JOB,
    Share,
    SubmitBucket,
    find_returned,
    give_ranks,
    rank_step,
    sum_steps,
    to_share,
)

OWNERS = {"a": 1.0, "b": 3.0, "c": 0.5, "d": 10.0}
SECOND = 1_000_000


class FairQueue:
    """One queue and priority, as the stores keep it."""

    def __init__(self) -> None:
        self.turn = 0
        self.last: dict[Share, int] = {}
        self.waiting: list[dict[str, Any]] = []
        self.number = 0

    def submit(self, owner: str, count: int) -> None:
        rows = [self._row(owner) for _ in range(count)]
        starts = {share: max(self.turn, self.last.get(share, 0)) for share in sum_steps(rows)}
        give_ranks(rows, starts)
        for row in rows:
            self.last[to_share(row)] = row["rank"]
        self.waiting += rows

    def _row(self, owner: str) -> dict[str, Any]:
        self.number += 1
        job = f"{self.number:09}"
        return {"id": job, "queue": "q", "priority": 0, "owner": owner, "step": rank_step(OWNERS[owner])}

    def claim(self, limit: int) -> list[dict[str, Any]]:
        self.waiting.sort(key=lambda row: (row["rank"], row["id"]))
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        self.turn = max([self.turn, *(row["rank"] for row in taken)])
        return taken


submit = st.tuples(st.sampled_from(sorted(OWNERS)), st.integers(1, 50))
claim = st.integers(1, 30)


@given(st.lists(st.one_of(submit, claim), max_size=60))
def test_turns_never_fall_and_each_owner_is_served_in_order(steps: list[Any]) -> None:
    queue, served, turns = FairQueue(), [], [0]
    for one in steps:
        if isinstance(one, int):
            served += queue.claim(one)
        else:
            queue.submit(*one)
        turns.append(queue.turn)
    assert turns == sorted(turns)
    for owner in OWNERS:
        ids = [row["id"] for row in served if row["owner"] == owner]
        assert ids == sorted(ids)


@given(st.lists(st.one_of(submit, claim), max_size=30), st.sampled_from(sorted(OWNERS)))
def test_an_owner_with_nothing_waiting_is_served_within_one_step(before: list[Any], owner: str) -> None:
    queue = FairQueue()
    for one in before:
        queue.claim(one) if isinstance(one, int) else queue.submit(*one)
    if any(row["owner"] == owner for row in queue.waiting):
        return
    queue.submit(owner, 1)
    others = [name for name in OWNERS if name != owner]
    # Each other owner may have its own jobs of one such step before it, and those left behind by a claim.
    behind = sum(row["rank"] <= queue.turn for row in queue.waiting)
    bound = sum(rank_step(OWNERS[owner]) // rank_step(OWNERS[name]) + 1 for name in others)
    place = sorted(queue.waiting, key=lambda row: (row["rank"], row["id"]))
    assert [row["owner"] for row in place].index(owner) <= bound + behind


@given(st.integers(0, 500), st.sampled_from(sorted(OWNERS)), st.sampled_from(sorted(OWNERS)))
def test_while_both_have_jobs_waiting_their_shares_are_as_their_weights(served: int, one: str, other: str) -> None:
    queue = FairQueue()
    queue.submit(one, served)
    queue.claim(served)
    if one == other:
        return
    queue.submit(one, 2_000)
    queue.submit(other, 2_000)
    found = Counter(row["owner"] for row in queue.claim(1_000))
    ratio = OWNERS[other] / OWNERS[one]
    assert abs(found[other] - ratio * found[one]) <= 1 + ratio + 0.01 * 1_000


def test_a_step_is_never_nothing() -> None:
    assert [rank_step(weight) for weight in (0.001, 1, 3, 1_000)] == [1_000 * ONE_JOB, ONE_JOB, 333, 1]


def test_what_was_not_stored_is_returned() -> None:
    rows: list[dict[str, Any]] = [
        {"id": str(n), "queue": "q", "priority": 0, "owner": owner, "step": 10} for n, owner in enumerate("aabbc")
    ]
    starts = {Share("q", 0, owner): 100 for owner in "abc"}
    give_ranks(rows, starts)
    assert [row["rank"] for row in rows] == [110, 120, 110, 120, 110]
    stored = {row["id"]: row for row in rows if row["id"] in ("0", "3", "4")}
    assert find_returned(rows, starts, stored) == {Share("q", 0, "a"): 110, Share("q", 0, "b"): 120}
    assert find_returned(rows, starts, {}) == starts


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3 * SECOND)), min_size=1, max_size=50),
    st.sampled_from(["1/s", "3/s", "10/s", "0.5/s", "100/m", "7/h"]),
)
def test_no_period_has_more_than_the_rate_and_one_burst_and_the_wait_is_as_announced(
    wishes: list[tuple[int, int]], text: str
) -> None:
    rate = parse_rate(text)
    bucket, now, passed = SubmitBucket("a", rate, 0), 0, []
    for count, pause in wishes:
        now += pause
        seen = SubmitBucket("a", rate, now, bucket.left, bucket.at)
        if not seen.fits(count):
            wait = seen.refusal(count).retry_after
            assert (wait is None) == (count > rate.burst)
            if wait is None:
                continue
            now += wait // timedelta(microseconds=1)
            seen = SubmitBucket("a", rate, now, bucket.left, bucket.at)
            assert seen.fits(count), "after the wait it fits"
        kept = seen.after(count)
        bucket = SubmitBucket("a", rate, now, kept["remaining"], kept["at"])
        passed.append((now, count))
    for start, _ in passed:
        for end in (end for end, _ in passed if start <= end):
            number = sum(count for at, count in passed if start <= at <= end)
            assert number <= rate.burst + (end - start) / SECOND * rate.per_second + 0.001


def test_a_clock_that_was_set_back_stops_no_job() -> None:
    assert SubmitBucket("a", parse_rate("1/h"), now=0, left=0.0, at=3_600 * SECOND).fits(1)
