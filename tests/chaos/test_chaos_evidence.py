"""What the checks of a run must not mistake: evidence made by hand."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from chaos.counters import Counters
from chaos.evidence import Evidence
from chaos.evidence_index import EvidenceIndex
from chaos.forked import ForkedProcess
from chaos.ledger import Run, Watch
from chaos.recovery import recoveries
from chaos.workers import Life
from mulligan.records.event import Event
from mulligan.store.messages import WorkerRecord

PID = 4711


class NoParent:
    def ask(self, order: dict[str, Any]) -> NoReturn:
        raise AssertionError(order)


def _evidence(**given: Any) -> Evidence:
    empty = dict.fromkeys(("plan", "accepted", "runs", "jobs", "events", "read", "workers", "lives", "statuses"), ())
    counters = Counters(
        batches=[], limits=[], spending={}, epoch=0, tallies={}, epochs={}, turns={}, shares={}, ranks={}
    )
    return Evidence(**{**empty, "published": {}, "log": "", "counters": counters, **given})


def _life(started: float, killed: float | None = None, pid: int = PID) -> Life:
    return Life(ForkedProcess(NoParent(), pid), started, killed)


def _event(name: str, seconds: float, attempt: int, worker: str, by: str | None = None) -> Event:
    data = {"worker": worker} if by is None else {"worker": worker, "by": by}
    at = datetime.fromtimestamp(seconds, UTC)
    return Event(int(seconds), name, "a-job", "steady", "", attempt, at, None, None, data)


def test_a_number_that_is_given_to_a_second_process_is_not_the_first() -> None:
    first, second = _life(100.0, killed=110.0), _life(900.0)
    runs = [Run("a", 1, "early", 105_000_000, PID, 105.0), Run("b", 1, "late", 905_000_000, PID, 905.0)]
    began = datetime.fromtimestamp(99.9, UTC)
    record = WorkerRecord(
        incarnation="recorded", host="", pid=PID, queues=None, kinds=(), concurrency=1, started_at=began
    )
    index = EvidenceIndex(_evidence(lives=[first, second], runs=runs, workers=[record]))
    assert index.lives["early"] is first
    assert index.lives["late"] is second
    assert index.lives["recorded"] is first


def test_a_process_is_at_work_only_by_its_own_signs(tmp_path: Path) -> None:
    place = tmp_path / "ledger"
    watch = Watch(place)
    assert watch.signs() == {}
    place.write_text(json.dumps({"pid": PID, "began": 105.0}) + "\n" + json.dumps({"pid": PID, "ended": 106.0}) + "\n")
    assert watch.signs() == {PID: 106.0}, "earlier than the beginning of the next process with this number"


def test_what_was_retried_manually_is_not_a_slow_recovery() -> None:
    lives = [_life(100.0, killed=110.0), _life(100.0, pid=PID + 1)]
    runs = [Run("a", 1, "one", 105_000_000, PID, 105.0), Run("b", 1, "two", 105_000_000, PID + 1, 105.0)]
    begun, again = _event("job.started", 105, 1, "one"), _event("job.started", 500, 2, "two")
    for end, found in (("job.failed", 0), ("job.released", 1)):
        events = [begun, _event(end, 112, 1, "one", by="two/1"), again]
        assert len(recoveries(EvidenceIndex(_evidence(lives=lives, runs=runs, events=events)))) == found
