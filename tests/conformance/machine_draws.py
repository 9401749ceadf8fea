"""What the machine draws: values small and few, so that jobs meet."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from conformance.bench import DAY, HOUR, INSTANT, MINUTE, SECOND, failing, verdict
from mulligan.failure.decision import Cancel, Decision, Fail, Postpone, Release, Retry, Succeed
from mulligan.failure.verdict import Ledger
from mulligan.lifecycle import Move
from mulligan.records.limit import LimitBook, RetryBudget

NONE = timedelta(0)
DELAYS = st.sampled_from([NONE, NONE, INSTANT, SECOND, MINUTE, HOUR])
# One key always comes with the same options: what holds between others is each store's own business.
KEYS: list[dict[str, Any]] = [
    {},
    {},
    {"dedupe_key": "while active"},
    {"dedupe_key": "or succeeded", "dedupe_scope": "succeeded"},
    {"dedupe_key": "for a while", "dedupe_for": MINUTE},
    {"dedupe_key": "all of it", "dedupe_for": MINUTE, "dedupe_scope": "succeeded"},
]
NEW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["a", "a", "a", "b"]),
        "owner": st.sampled_from(["", "acme", "acme", "other"]),
        "queue": st.sampled_from(["default", "default", "bulk"]),
        "priority": st.sampled_from([0, 0, -10, 10]),
        "cost": st.sampled_from([0, 40]),
        "delay": DELAYS,
        "deadline": st.sampled_from([None, None, None, SECOND, HOUR]),
        "timeout": st.sampled_from([None, SECOND, HOUR]),
    }
)
FAIR = ("bulk",)
CROWDS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["a", "b"]),
        "owner": st.sampled_from(["acme", "other"]),
        "queue": st.sampled_from(["bulk", "default"]),
        "priority": st.sampled_from([0, 0, 0, -10]),
        "cost": st.sampled_from([0, 40]),
    }
)
WEIGHTS = st.sampled_from([1.0, 3.0, 0.25])
CLAIMS = st.fixed_dictionaries(
    {
        "incarnation": st.sampled_from(["w1", "w2"]),
        "kinds": st.sampled_from([("a", "b"), ("a", "b"), ("a", "b"), ("a",), ("b",)]),
        "queues": st.sampled_from([None, None, None, ("default",), ("default", "bulk")]),
        "limit": st.sampled_from([4, 4, 1, 2, 0]),
        "lease": st.sampled_from([MINUTE, SECOND]),
        "fair": st.sampled_from([FAIR, FAIR, FAIR, ()]),
    }
)
BUDGETS = [
    RetryBudget(per_day=1),
    RetryBudget(per_day=2),
    RetryBudget(per_day=2, per_month=3, over="fail"),
    RetryBudget(cost_per_month=100),
    RetryBudget(per_day=0, over="fail"),
]
BOOKS = st.builds(
    LimitBook,
    kinds=st.sampled_from([{}, {}, {"a": 1}, {"a": 2}, {"a": 2, "b": 1}]),
    queues=st.sampled_from([{}, {}, {}, {"bulk": 1}, {"default": 2}]),
    owners=st.sampled_from([{}, {}, {"acme": 1}, {"*": 1}, {"*": 2, "acme": 1}]),
    budgets=st.sampled_from([{}, *({"acme": budget} for budget in BUDGETS), {"*": BUDGETS[0], "acme": BUDGETS[1]}]),
)
BATCHES = st.fixed_dictionaries(
    {
        "success_at": st.sampled_from([1.0, 0.5]),
        "abort_above": st.sampled_from([None, 0.0, 0.5]),
        "expires_in": st.sampled_from([None, None, SECOND, HOUR]),
    }
)
CODES = st.sampled_from(["GW_5XX", "IO_ERROR", "SNOOZED"])
DECISIONS: st.SearchStrategy[Decision] = st.one_of(
    st.builds(lambda delay, code: Retry(delay, verdict(code), {}), DELAYS, CODES),
    st.builds(lambda delay, code: Postpone(delay, verdict(code), {}), DELAYS, CODES),
    st.just(Postpone(MINUTE, verdict("VERSION_MISMATCH", ledger=Ledger.MISFITS), {})),
    st.sampled_from([None, *Ledger]).map(lambda ledger: Release({}, ledger=ledger)),
    st.sampled_from([Succeed(None), Succeed('{"a":[1]}')]),
    st.sampled_from(list(Ledger)).map(lambda ledger: Fail(verdict("CRASHED", ledger=ledger), {})),
    st.sampled_from([failing(), Cancel({"why": "asked"})]),
)
DUTIES = st.sampled_from(["retry", "promote"])
PAUSED = st.sampled_from([("duty", "retry"), ("duty", "promote"), ("queue", "bulk"), ("kind", "a")])
TIMES = st.sampled_from([MINUTE, SECOND, INSTANT, HOUR, MINUTE, SECOND, DAY, 20 * DAY])
BY_HAND = st.sampled_from([move for move in Move if move.verb])
