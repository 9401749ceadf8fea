"""The load tests of the document: many retries, duties under load, deep queues, one worker and four.

They run under `MULLIGAN_SOAK=1`. Nothing is timed: what counts is that every job and every credit is accounted for.
"""

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from apps.screenshots.access import Caller
from apps.screenshots.captures import Captures, Order
from screenshots_hammer import run_worker
from screenshots_sites import Sites
from screenshots_world import PRIVATE, World
from test_screenshots_api import claim, make_stuck

from live import eventually
from mulligan import JobFilter, State

pytestmark = pytest.mark.skipif(
    not os.environ.get("MULLIGAN_SOAK"), reason="load tests take minutes: make soak PARTS=apps"
)

# Each has a host of its own, of the thousand that are kept apart.
RETRIED, REFUSED = 900, 2_000
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["screenshots_hammer"])


@pytest.fixture
def loaded(make_world: Callable[..., Any]) -> Any:
    with make_world(credits=10**6) as world:
        yield world


def submit(world: World, number: int, url: str = PRIVATE) -> list[str]:
    captures = Captures(world.all)
    callers = [Caller(f"owner-{each}", "load") for each in range(4)]
    return [captures.submit(callers[each % 4], Order(url=url.format(each))).id for each in range(number)]


def states(world: World) -> Counter[str]:
    return Counter(str(each.job.state) for each in world.app.export(JobFilter(tag="capture")))


def test_a_high_volume_of_retries_is_worked_off(loaded: World) -> None:
    submit(loaded, RETRIED, "http://{}.nowhere.test/")
    with loaded.working(concurrency=20):
        loaded.settled()
    jobs = [each.job for each in loaded.app.export(JobFilter(tag="capture"))]
    assert {(str(job.state), job.retry_count, job.attempt) for job in jobs} == {("failed", 3, 4)}
    assert len(jobs) == RETRIED
    loaded.check_ledger()


def test_duties_are_done_under_load(loaded: World) -> None:
    """Stuck jobs are found while the workers have their hands full."""
    stuck = submit(loaded, 10)
    claim(loaded)
    for job_id in stuck:
        make_stuck(loaded, job_id)
    submit(loaded, REFUSED)
    with loaded.working(concurrency=10):
        eventually(lambda: loaded.app.run_duty("reclaim").did or not loaded.app.stuck(), seconds=300)
        loaded.settled()
    assert loaded.app.stuck() == []
    assert states(loaded) == {"failed": REFUSED + len(stuck)}
    loaded.check_ledger()


def test_a_deep_queue_has_its_order_and_a_bounded_place(loaded: World) -> None:
    jobs = submit(loaded, REFUSED)
    places = [loaded.app.queue_position(job_id) for job_id in (jobs[0], jobs[499], jobs[-1])]
    assert places == [1, 500, 1_000]
    with loaded.working(concurrency=10):
        loaded.settled()
    starts = {job_id: loaded.app.job(job_id).started_at for job_id in (jobs[0], jobs[-1])}
    assert starts[jobs[0]] < starts[jobs[-1]]  # type: ignore[operator]
    loaded.check_ledger()


@pytest.mark.parametrize("workers", [1, 4])
def test_one_worker_or_four_run_every_job_once(
    loaded: World, workers: int, store_url: str, tmp_path: Path, sites: Sites
) -> None:
    submit(loaded, REFUSED)
    processes = [
        SERVER.Process(target=run_worker, args=(store_url, str(tmp_path), sites.endpoint)) for _ in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * workers
    jobs = [each.job for each in loaded.app.export(JobFilter(tag="capture"))]
    assert {(job.state, job.attempt) for job in jobs} == {(State.FAILED, 1)}
    assert len({job.last_code for job in jobs}) == 1
    loaded.check_ledger()
