"""No task ends its worker by stopping the event loop, by `sys.exit` or by KeyboardInterrupt."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import loop_tasks
import pytest

from live import SOON, eventually, started_worker
from mulligan import App, State

STOPPED = "RuntimeError: a task must not stop the event loop"
FAIL_WITH = {
    "stops": STOPPED,
    "closes": "RuntimeError: Cannot close a running event loop",
    "exits": "SystemExit: 3",
    "exits_in_a_thread": "SystemExit",
    "interrupts_in_a_thread": "KeyboardInterrupt",
    "exits_in_a_task_of_its_own": "SystemExit: 3",
    "interrupts_in_a_group": "KeyboardInterrupt",
    "stops_in_a_child": STOPPED,
    "exits_in_a_child": "SystemExit: 3",
}
FINISH_WITH = {"stops_in_a_callback": "went on", "beside": "finished"}
OVER = (State.SUCCEEDED, State.FAILED)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The end of a job of each kind, and of their worker."""
    folder = tmp_path_factory.mktemp("loop")
    with contextlib.chdir(folder), loop_tasks.app as app:
        ids = {kind: app.tasks[kind].enqueue().id for kind in (*FAIL_WITH, *FINISH_WITH)}
        with started_worker("loop_tasks:app", folder) as process:
            eventually(lambda: process.poll() is not None or all(app.job(each).state in OVER for each in ids.values()))
            last = app.tasks["leaves_a_thread_that_stops"].enqueue().id
            _, said = process.communicate(timeout=SOON)
        jobs = {kind: app.job(each) for kind, each in (ids | {"last": last}).items()}
        errors = {kind: app.events(each)[-1].data.get("detail", "") for kind, each in ids.items()}
        yield {"jobs": jobs, "errors": errors, "status": process.returncode, "said": said}


@pytest.mark.parametrize("kind", FAIL_WITH)
def test_a_task_that_tries_fails(found: dict[str, Any], kind: str) -> None:
    job = found["jobs"][kind]
    assert (job.state, job.failures, job.attempt, job.crashes) == (State.FAILED, 1, 1, 0)
    assert FAIL_WITH[kind] in found["errors"][kind]


@pytest.mark.parametrize("kind", FINISH_WITH)
def test_other_jobs_of_the_worker_continue(found: dict[str, Any], kind: str) -> None:
    assert found["jobs"][kind].result == FINISH_WITH[kind]


def test_the_log_has_no_raw_traceback(found: dict[str, Any]) -> None:
    assert "Traceback" not in found["said"]
    assert "must not stop the event loop" in found["said"]
    assert "(task 'stops_in_a_callback', in a callback)" in found["said"]
    assert "raised SystemExit on the event loop" in found["said"]
    assert "raised KeyboardInterrupt on the event loop" in found["said"]


def test_a_loop_stopped_from_elsewhere_drains_the_worker(found: dict[str, Any]) -> None:
    assert found["status"] == 0
    assert found["jobs"]["last"].result == "finished"


def test_a_worker_whose_own_tasks_were_cancelled_says_so_in_one_line_and_ends(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.task("cancels_all")(lambda: None).enqueue()
    with started_worker("loop_tasks:app", tmp_path) as process:
        _, said = process.communicate(timeout=SOON)
    assert process.returncode == 5
    assert "Traceback" not in said
    assert "Error: the code of a task cancelled the asyncio tasks of its worker" in said


def test_a_script_that_is_interrupted_releases_what_runs(app: App) -> None:
    @app.task
    async def long() -> None:
        await asyncio.sleep(60)

    @app.task
    async def interrupts() -> None:
        await asyncio.create_task(_interrupt_when(lambda: app.job(running.id).state is State.RUNNING))

    running = long.enqueue()
    interrupts.enqueue()
    with pytest.raises(KeyboardInterrupt):
        app.run_until_idle(timeout=SOON)
    assert (app.job(running.id).state, app.job(running.id).failures) == (State.QUEUED, 0)


async def _interrupt_when(is_so: Any) -> None:
    while not await asyncio.to_thread(is_so):
        pass
    raise KeyboardInterrupt
