"""The five schedules of the source documents, delay by delay, through `decide`."""

from datetime import timedelta
from typing import Any

import pytest
from failure_jobs import NOW, a_job

from mulligan.errors import RetryableError
from mulligan.failure.backoff import Added, Exponential, Steps
from mulligan.failure.classify import classify
from mulligan.failure.decide import decide
from mulligan.failure.decision import Fail
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.verdict import Failure

WATERMARK = RetryPolicy(max_attempts=4, backoff=Steps(["1m", "5m", "15m"]))
SCREENSHOT = RetryPolicy(max_attempts=4, backoff=Exponential("5s", factor=5, jitter=None))
CONVERTER = RetryPolicy(max_attempts=3, backoff=Exponential("5s", factor=3, jitter=0.2))
CONVERTER_RAISED = RetryPolicy(max_attempts=4, backoff=Exponential("5s", factor=3, jitter=0.2))
CONVERTER_ADDED = RetryPolicy(max_attempts=3, backoff=Exponential("5s", factor=2, jitter=Added("5s")))
VERIFIER = RetryPolicy(max_attempts=8, backoff=Exponential("60s", factor=2.0, cap="3600s", jitter=None))

# After the 1st, 2nd, … failure: seconds to wait, or from … to; then it fails for good.
SCHEDULES = [
    ("W2", WATERMARK, [(60, 60), (300, 300), (900, 900)]),
    ("S2", SCREENSHOT, [(5, 5), (25, 25), (125, 125)]),
    ("P3 [002]", CONVERTER, [(4, 6), (12, 18)]),
    ("P3 [002], limit raised", CONVERTER_RAISED, [(4, 6), (12, 18), (36, 54)]),
    ("P3 [004]", CONVERTER_ADDED, [(5, 10), (10, 15)]),
    ("R3", VERIFIER, [(60, 60), (120, 120), (240, 240), (480, 480), (960, 960), (1920, 1920), (3600, 3600)]),
]


def decisions(policy: RetryPolicy, draw: float) -> list[Any]:
    verdict = classify(Failure.of(RetryableError("again", code="GW_5XX")), kind="any")
    made: list[Any] = []
    previous = None
    for failures in range(policy.max_attempts):
        job = a_job(failures=failures, max_attempts=policy.max_attempts, previous_delay=previous)
        decision = decide(verdict, job, policy, now=NOW, draw=draw)
        made.append(decision)
        previous = getattr(decision, "delay", None)
    return made


@pytest.mark.parametrize(("policy", "delays"), [case[1:] for case in SCHEDULES], ids=[case[0] for case in SCHEDULES])
def test_the_schedules_of_the_source_documents(policy: Any, delays: Any) -> None:
    for draw, end in ((0.0, 0), (1 - 2**-53, 1)):
        *retries, last = decisions(policy, draw)
        found = [retry.delay.total_seconds() for retry in retries]
        assert found == pytest.approx([delay[end] for delay in delays], abs=1e-5)
        assert isinstance(last, Fail)
    middle = [retry.delay for retry in decisions(policy, 0.5)[:-1]]
    assert middle == [timedelta(seconds=sum(delay) / 2) for delay in delays]
