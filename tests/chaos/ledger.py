"""Which worker ran which attempt, and when: the tasks write one line at the beginning and one at the end."""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mulligan import attempt
from mulligan.values.moment import microseconds

PLACE = "CHAOS_LEDGER"


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Note the attempt this code runs in. An attempt without an end ended with its process."""
    job = attempt().job
    assert job.last_attempt_at is not None
    run = {
        "job": job.id,
        "attempt": job.attempt,
        "worker": job.leased_by,
        "claimed": microseconds(job.last_attempt_at),
        "pid": os.getpid(),
    }
    append({**run, "began": time.time()})
    how = "interrupted"
    try:
        yield
        how = "returned"
    except Exception:
        how = "raised"
        raise
    finally:
        append({**run, "ended": time.time(), "how": how})


def append(line: dict[str, object], place: Path | None = None) -> None:
    """One write of less than a page to a file opened for appending: a kill leaves all of it or nothing."""
    file = os.open(place or os.environ[PLACE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps(line, separators=(",", ":")).encode() + b"\n")
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one attempt. `claimed` is the claim's own time: it tells two claims of one number apart."""

    job: str
    attempt: int
    worker: str
    claimed: int
    pid: int
    began: float
    ended: float | None = None
    how: str | None = None

    @property
    def key(self) -> tuple[str, int, str, int]:
        return (self.job, self.attempt, self.worker, self.claimed)


def runs(place: Path) -> list[Run]:
    """All runs in the order of their beginning. One that began twice is there twice."""
    found: list[Run] = []
    latest: dict[tuple[object, ...], int] = {}
    for line in lines(place):
        key = (line["job"], line["attempt"], line["worker"], line["claimed"], line["pid"])
        if "began" in line:
            latest[key] = len(found)
            found.append(Run(**line))
        else:
            found[latest[key]] = replace(found[latest[key]], ended=line["ended"], how=line["how"])
    return found


class Watch:
    """When each process began or ended something last, read as the ledger grows."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._read = 0
        self._signs: dict[int, float] = {}

    def signs(self) -> dict[int, float]:
        if self._place.exists():
            with self._place.open("rb") as file:
                file.seek(self._read)
                # A reader may see the first half of a line that is being written.
                whole, _, _ = file.read().rpartition(b"\n")
            for line in map(json.loads, whole.splitlines()):
                self._signs[line["pid"]] = line.get("ended") or line["began"]
            self._read += len(whole) + 1 if whole else 0
        return self._signs


def lines(place: Path) -> list[dict[str, object]]:
    if not place.exists():
        return []
    return [json.loads(line) for line in place.read_text().splitlines()]
