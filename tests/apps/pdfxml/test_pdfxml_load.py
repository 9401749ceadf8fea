"""Hundreds of conversions with faults, a killed worker and a killed gateway: every one is accounted for."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from lxml import etree
from pdfxml_files import unique_pdf
from pdfxml_world import Person, World
from test_pdfxml_workers import worker_process

from live import eventually

MakeWorld = Callable[..., Any]
SQLITE = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
EACH = 20


def upload_all(world: World, number: int) -> list[tuple[Person, str]]:
    """Twenty uploads of each of many people, as many as a session may have at a time."""
    people = [world.person() for _ in range(number // EACH)]

    def upload(person: Person, first: int) -> list[tuple[Person, str]]:
        return [(person, person.uploaded(unique_pdf(first + each))) for each in range(EACH)]

    with ThreadPoolExecutor(4) as pool:
        found = pool.map(upload, people, range(0, number, EACH))
        return [each for some in found for each in some]


def succeeded(world: World) -> int:
    return len(list(world.converter.settings.results.glob("*.xml")))


def settle(world: World, number: int, deaths: int) -> list[tuple[Person, str]]:
    """Upload, convert with one call of ten held up or failing, and kill a worker and the gateway with calls in them."""
    world.gateway.fail("wait", share=0.1)
    jobs = upload_all(world, number)
    with worker_process(world, **FAST), worker_process(world, **FAST) as doomed:
        # Soon every slot has a call that waits: nothing ends before the kills, however busy the machine is.
        eventually(lambda: world.gateway.met >= 2 * SLOTS, 600)
        doomed.send_signal(signal.SIGKILL)
        for death in range(deaths):
            if death:
                more = succeeded(world) + number // (2 * deaths)
                eventually(lambda: succeeded(world) >= more, 600)  # noqa: B023
                world.gateway.fail("wait", share=0.1)
                eventually(lambda: world.gateway.met >= SLOTS, 600)
            world.gateway.kill()
            done = succeeded(world)
            world.gateway.start()
            world.gateway.fail(status=503, share=0.1)
            assert 0 < done < number, "the gateway was killed before or after all conversions"
        eventually(lambda: not set(world.app.counts().groups) & {"queued", "waiting", "running"}, 1800)
    return jobs


SLOTS = 4
MANY = {"max_attempts": 10, "upload_rate": "10000/s"}
FAST = {"RETRY_MAX_ATTEMPTS": "10", "CIRCUIT_COOLDOWN_MS": "300", "WORKER_CONCURRENCY": str(SLOTS)}


def check(world: World, jobs: list[tuple[Person, str]]) -> None:
    statuses = Counter(job["status"] for person in {person for person, _ in jobs} for job in person.jobs())
    assert statuses == {"complete": len(jobs)}
    assert len({job for _, job in jobs}) == len(jobs)
    # One XML for each, whole, and nothing else.
    results = list(world.converter.settings.results.glob("*.xml"))
    assert len(results) == len(jobs)
    assert {etree.parse(path).getroot().tag for path in results} == {"document"}
    for _, job in jobs[:: max(1, len(jobs) // 50)]:
        assert [event.type for event in world.app.events(job)].count("job.succeeded") == 1


@SQLITE
def test_p7_300_conversions_with_faults_and_kills_all_complete(make_world: MakeWorld) -> None:
    with make_world(lease=timedelta(seconds=1), gateway_timeout=timedelta(seconds=30), **MANY) as world:
        check(world, settle(world, 300, deaths=1))


@pytest.mark.skipif("MULLIGAN_SOAK" not in os.environ, reason="10,000 conversions: make soak PARTS=apps")
def test_p7_10_000_conversions_with_faults_and_kills_all_complete(make_world: MakeWorld) -> None:
    with make_world(lease=timedelta(seconds=5), gateway_timeout=timedelta(seconds=30), **MANY) as world:
        check(world, settle(world, 10_000, deaths=5))
