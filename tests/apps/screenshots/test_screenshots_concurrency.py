"""S4: four processes that are killed and started again cannot make the ledger wrong."""

import multiprocessing
import random
import threading
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest
from app_stores import IS_SOAK
from apps.screenshots.app import site_of
from screenshots_hammer import hammer
from screenshots_sites import Sites
from screenshots_world import World

from mulligan import JobFilter, State

LIVE = (State.WAITING, State.QUEUED, State.RUNNING)
OPERATIONS, PROCESSES = (200, 4) if IS_SOAK else (50, 4)
# Forked from a process that has imported everything: most of the time of a new one is that.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["screenshots_hammer"])
# Starting or joining a process reads how each of its siblings ended, which can be read once.
ONE_AT_A_TIME = threading.Lock()


class Hammer:
    """A process with its share of the operations. It is killed after some of them, and another takes its place."""

    def __init__(self, arguments: tuple[str, str, str], seed: int, operations: int) -> None:
        self._arguments, self._seed, self._left = arguments, seed, operations
        self._chance = random.Random(seed)
        self.kills, self.told, self.exits = 0, [], []  # type: int, list[str], list[int | None]
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self._strike(until=self._chance.randint(1, self._left - 1), is_killed=True)
        self._strike(until=self._left, is_killed=False)

    def _strike(self, *, until: int, is_killed: bool) -> None:
        ours, theirs = SERVER.Pipe(duplex=False)
        process = SERVER.Process(target=hammer, args=(theirs, *self._arguments, self._seed, self._left))
        with ONE_AT_A_TIME:
            process.start()
        theirs.close()
        with ours:
            try:
                self.told += [ours.recv() for _ in range(until)]
            except EOFError:
                is_killed = False
        if is_killed:
            process.kill()
            self.kills += 1
        wait([process.sentinel])
        with ONE_AT_A_TIME:
            process.join()
        self.exits.append(process.exitcode)
        self._seed, self._left = self._seed + 1_000, self._left - until


@pytest.mark.parametrize("store_url", ["sqlite", "postgres"] if IS_SOAK else ["postgres"], indirect=True)
def test_s4_processes_that_are_killed_leave_a_ledger_that_is_right(
    make_world: Callable[..., Any], store_url: str, tmp_path: Path, sites: Sites
) -> None:
    # How long a page takes on a machine with this much to do is not what is tested.
    with make_world(credits=25, page_timeout=timedelta(minutes=2)) as world:
        # These need a browser, which only the last worker starts.
        world.app.pause(kind="pdf_generation")
        pdfs = [world.submit(sites.url(), format="PDF") for _ in range(2)]
        arguments = (store_url, str(tmp_path), sites.endpoint)
        hammers = [Hammer(arguments, seed, OPERATIONS // PROCESSES) for seed in range(PROCESSES)]
        for each in hammers:
            each.thread.join()
        assert [each.exits for each in hammers] == [[-9, 0]] * PROCESSES
        assert sum(len(each.told) for each in hammers) >= OPERATIONS // PROCESSES * PROCESSES
        drain(world)
        assert {world.show(job_id)["status"] for job_id in pdfs} <= {"COMPLETED", "CANCELLED"}
        assert len(world.app.jobs(JobFilter(tag="capture")).jobs) > len(pdfs)
        world.check_ledger()


def drain(world: World) -> None:
    world.app.resume(kind="pdf_generation")
    # A site that was retried again and again is held, perhaps only from now on: its captures would wait for it until
    # their deadline, in a day.
    for job in world.app.jobs(JobFilter(tag="capture", state=LIVE), limit=OPERATIONS).jobs:
        world.app.service(site_of(job.arguments["url"])).close(actor="test")
    with world.working(concurrency=4):
        world.settled()
