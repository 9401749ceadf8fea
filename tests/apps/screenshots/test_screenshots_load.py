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
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stuck jobs are looked for every two seconds instead of every five minutes. No capture takes as long as to be one:
    they have three minutes."""
    monkeypatch.setenv("MULLIGAN_STUCK_AFTER_SEC", "12")
    monkeypatch.setenv("MULLIGAN_WORKER_LEASE_TTL_SEC", "6")


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


def test_duties_are_done_under_load(eager: None, make_world: Callable[..., Any]) -> None:
    """The scheduler finds stuck jobs while the workers have their hands full."""
    with make_world(credits=10**6) as world:
        stuck = submit(world, 10)
        claim(world)
        for job_id in stuck:
            make_stuck(world, job_id)
        jobs, places = submit(world, REFUSED), []
        with world.working(concurrency=10):
            while world.app.stuck():
                places.append(position := place(world, jobs[-1]))
                if position < REFUSED // 4:
                    jobs += submit(world, REFUSED // 4)
                assert len(jobs) < 50 * REFUSED, "nothing takes the stuck jobs from their worker"
            assert place(world, jobs[-1]), "the queue was never empty"
            assert all(places)
            world.settled()
        assert states(world) == {"failed": len(jobs) + len(stuck)}
        for job_id in stuck:
            codes = [event.code for event in world.app.events(job=job_id) if event.code]
            assert codes == ["TIMEOUT", "TARGET_REFUSED"]
        world.check_ledger()


def place(world: World, job_id: str) -> int:
    """In the queue; 0 if a worker has it."""
    return world.app.queue_position(job_id) or 0


def test_a_deep_queue_has_its_order_and_a_bounded_place(loaded: World) -> None:
    jobs = submit(loaded, REFUSED)
    places = [loaded.app.queue_position(job_id) for job_id in (jobs[0], jobs[499], jobs[-1])]
    assert places == [1, 500, 1_000]
    with loaded.working(concurrency=10):
        loaded.settled()
    starts = {job_id: loaded.app.job(job_id).started_at for job_id in (jobs[0], jobs[-1])}
    assert starts[jobs[0]] < starts[jobs[-1]]  # type: ignore[operator]
    loaded.check_ledger()


def test_three_workers_come_to_the_help_of_one_and_every_job_runs_once(
    loaded: World, store_url: str, tmp_path: Path, sites: Sites
) -> None:
    last = submit(loaded, REFUSED)[-1]
    processes = [SERVER.Process(target=run_worker, args=(store_url, str(tmp_path), sites.endpoint)) for _ in range(4)]
    processes[0].start()
    eventually(lambda: states(loaded)["failed"])
    for process in processes[1:]:
        process.start()
    # Captures go on coming until the new ones are at work.
    while len(at_work(loaded)) < len(processes):
        if place(loaded, last) < REFUSED // 4:
            last = submit(loaded, REFUSED // 4)[-1]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)
    jobs = [each.job for each in loaded.app.export(JobFilter(tag="capture"))]
    assert {(job.state, job.attempt) for job in jobs} == {(State.FAILED, 1)}
    assert len({job.last_code for job in jobs}) == 1
    loaded.check_ledger()


def at_work(world: World) -> set[str]:
    """The workers that have begun a capture."""
    found: set[str] = set()
    position, is_end = 0, False
    while not is_end:
        page = world.app.stream(after=position, types=("job.started",), limit=1_000)
        found |= {event.data["worker"] for event in page.events}
        position, is_end = page.position, page.is_end
    return found
