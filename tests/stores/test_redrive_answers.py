"""How the next attempts of redriven jobs answer for the redrive."""

import pytest

from mulligan.store.redrives import first_results

RELEASED = "job.released"


@pytest.mark.parametrize(
    ("ends", "answer"),
    [
        ([("job.succeeded", None)], True),
        ([("job.failed", "NETWORK")], False),
        ([("job.retry_scheduled", "NETWORK"), ("job.succeeded", None)], False),
        ([(RELEASED, None), ("job.succeeded", None)], True),
        ([(RELEASED, "WORKER_LOST"), ("job.succeeded", None)], True),
        ([(RELEASED, "WORKER_LOST"), ("job.failed", "WORKER_LOST")], False),
        ([(RELEASED, "SEGFAULT"), ("job.succeeded", None)], False),
    ],
)
def test_the_first_outcome_that_names_the_job_counts(ends: list[tuple[str, str | None]], answer: bool) -> None:
    assert first_results([("job", *end) for end in ends], RELEASED) == {"job": answer}


def test_a_job_whose_workers_only_went_away_has_not_answered() -> None:
    assert first_results([("job", RELEASED, "WORKER_LOST"), ("job", RELEASED, None)], RELEASED) == {}
