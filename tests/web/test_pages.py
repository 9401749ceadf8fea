"""Pages by cursor are equal to a full scan, also while jobs come and change."""

import random
import threading
from typing import Any

from world import World

from mulligan.records.job import JobFilter

OWNER = "acme"


def read_all(world: World, path: str, name: str, **params: Any) -> list[str]:
    found, cursor = [], None
    while True:
        page = world.acme.get(path, params={**params, **({"cursor": cursor} if cursor else {})}).json()
        found += [each["id"] for each in page[name]]
        cursor = page["cursor"]
        if cursor is None:
            return found


def test_pages_of_jobs_are_a_full_scan_under_writes(world: World) -> None:
    convert = world.task("convert")
    world.app.enqueue_many([convert.options(owner=OWNER, delay="1h").bind(f"{number}") for number in range(200)])
    before = [job.id for job in world.app.jobs(JobFilter(), owner=OWNER, limit=1000).jobs]
    stop = threading.Event()

    def write() -> None:
        draw = random.Random(7)
        while not stop.is_set():
            convert.options(owner=OWNER, delay="1h").enqueue("new")
            world.app.snooze(draw.choice(before), "2h")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        scans = [read_all(world, "jobs", "jobs", limit=limit) for limit in (7, 50, 199)]
    finally:
        stop.set()
        writer.join()
    for scan in scans:
        assert len(scan) == len(set(scan))
        known = set(before)
        assert [job_id for job_id in scan if job_id in known] == before


def test_pages_of_a_filter_are_a_full_scan(world: World) -> None:
    tagged = {world.task("convert").options(owner=OWNER, tags=["x"], delay="1h").enqueue("a").id for _ in range(25)}
    assert set(read_all(world, "jobs", "jobs", tag="x", limit=4)) == tagged


def test_pages_of_batches_are_a_full_scan(world: World) -> None:
    made = [world.acme.post("batches", json={"name": f"b{number}"}).json()["id"] for number in range(9)]
    found = read_all(world, "batches", "batches", limit=4)
    assert [each for each in found if each in set(made)] == made[::-1]
    assert read_all(world, "batches", "batches", limit=3) == found


def test_an_export_has_every_job_once(world: World) -> None:
    for number in range(3):
        world.task("convert").options(owner=OWNER, delay="1h").enqueue(f"{number}")
    lines = world.acme.get("jobs/export").text.splitlines()
    assert len(lines) == world.app.counts(owner=OWNER).total
