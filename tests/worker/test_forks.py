"""A task may fork: the fork exits where it returns to the worker's code, and the worker is not affected."""

import contextlib
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import fork_tasks
import pytest

from live import SOON, eventually, started_worker
from mulligan import State

RESULTS = {
    "in_a_thread": 0,
    "exits_in_a_thread": 3,
    "raises_in_a_thread": 1,
    "on_the_loop": 0,
    "on_the_loop_and_waits": 0,
    "in_a_task_of_its_own": 0,
    "in_a_thread_of_its_own": 0,
    "in_an_executor_of_its_own": 0,
    "in_a_child": 0,
    "on_the_loop_of_a_child": 0,
    "by_multiprocessing": "done 0",
    "terminates": -signal.SIGTERM,
    "by_subprocess": "done",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forks")


@pytest.fixture(scope="module")
def found(folder: Path) -> Iterator[dict[str, object]]:
    """The end of a job of each kind, and of their worker."""
    with contextlib.chdir(folder), fork_tasks.app as app:
        ids = {kind: app.tasks[kind].enqueue().id for kind in RESULTS}
        with started_worker("fork_tasks:app", folder) as process:
            eventually(lambda: all(app.job(each).state in (State.SUCCEEDED, State.FAILED) for each in ids.values()))
            process.terminate()
            _, said = process.communicate(timeout=SOON)
        results: dict[str, object] = {kind: app.job(each).result for kind, each in ids.items()}
        events = Counter(event.type for each in ids.values() for event in app.events(each))
        yield results | {
            "status": process.returncode,
            "said": said,
            "events": events,
            "errors": {
                kind: app.events(each)[-1].data for kind, each in ids.items() if app.job(each).state != "succeeded"
            },
        }


@pytest.mark.parametrize("kind", RESULTS)
def test_a_fork_exits_where_it_returns_and_the_attempt_continues(found: dict[str, object], kind: str) -> None:
    assert found[kind] == RESULTS[kind], str(found["errors"])


def test_each_job_is_settled_once_by_a_worker_that_survives(found: dict[str, object]) -> None:
    assert found["events"] == Counter(
        {"job.enqueued": len(RESULTS), "job.started": len(RESULTS), "job.succeeded": len(RESULTS)}
    )
    assert found["status"] == 0


def test_no_fork_leaves_the_hooks_of_its_parent(found: dict[str, object], folder: Path) -> None:
    assert found
    assert len((folder / "left").read_text().split()) == len(RESULTS)


def test_an_error_in_a_fork_is_shown(found: dict[str, object]) -> None:
    assert str(found["said"]).count("ValueError: of the copy") == 1
