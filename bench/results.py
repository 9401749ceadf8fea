"""What was measured, by peer, part and figure; and mulligan beside the others."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.lineup import LINEUP, Entry
from bench.records import Record
from bench.statistics import Round, Spread, ratio

OURS = {"postgres": "mulligan-postgres", "sqlite": "mulligan-sqlite", "redis": "mulligan-postgres"}
"""The peers on Redis stand beside mulligan on PostgreSQL: there is none on Redis."""
STORES = {"postgres": "PostgreSQL", "sqlite": "SQLite", "redis": "Redis"}


@dataclass(frozen=True)
class Measure:
    """One figure of one part."""

    part: str
    figure: str
    title: str
    short: str = ""
    """The title of a column."""
    less_is_better: bool = False

    def is_better(self, value: float, other: float) -> bool:
        return value < other if self.less_is_better else value > other


ENQUEUE_SYNC = Measure("enqueue", "sync jobs/s", "Enqueue one by one, plain calls, jobs/s", "enqueue, plain /s")
ENQUEUE_ASYNC = Measure("enqueue", "async jobs/s", "Enqueue one by one, from asyncio, jobs/s", "enqueue, asyncio /s")
BULK = Measure("bulk", "jobs/s", "Enqueue 1,000 a call, jobs/s", "bulk /s")
DRAIN = Measure("drain", "jobs/s", "Drain, one worker, jobs/s", "drain /s")
DRAIN_TWO = Measure("drain-two", "jobs/s", "Drain, two workers, jobs/s", "drain, two workers /s")
FAILING = Measure("failing", "jobs/s", "Fail twice, then succeed, jobs/s", "fail twice /s")
GAPS_P50 = Measure(
    "latency", "10 ms gaps p50 ms", "Latency with 10 ms gaps, p50, ms", "10 ms gaps p50 ms", less_is_better=True
)
GAPS_P99 = Measure("latency", "10 ms gaps p99 ms", "Latency with 10 ms gaps, p99, ms", "p99 ms", less_is_better=True)
IDLE_P50 = Measure("latency", "idle p50 ms", "Latency of an idle worker, p50, ms", "idle p50 ms", less_is_better=True)
IDLE_P99 = Measure("latency", "idle p99 ms", "Latency of an idle worker, p99, ms", "p99 ms", less_is_better=True)
IDLE_MEMORY = Measure("latency", "idle MiB", "Memory of an idle worker, MiB", "idle MiB", less_is_better=True)
PEAK_MEMORY = Measure(
    "peak", "peak MiB", "Peak memory of the longest drain, MiB", "long drain, peak MiB", less_is_better=True
)
DRAIN_MEMORY = Measure("drain", "peak MiB", "Peak memory of a drain, MiB", "peak MiB", less_is_better=True)
WORKER_CPU = Measure(
    "drain", "worker CPU µs", "Drain, CPU time of the worker, µs a job", "worker µs a job", less_is_better=True
)
SERVER_CPU = Measure(
    "drain", "server CPU µs", "Drain, CPU time of the server, µs a job", "server µs a job", less_is_better=True
)
NOTIFY = Measure("storm", "NOTIFY/s", "A storm of enqueues, NOTIFY/s", "storm NOTIFY/s", less_is_better=True)
STORM = Measure("storm", "jobs/s", "A storm of enqueues, jobs/s", "storm /s")
HTTP = Measure("http", "requests/s", "POST /jobs with 32 clients, requests/s", "POST /s")
HTTP_PLAIN = Measure(
    "http", "without key, requests/s", "POST /jobs with 32 clients, no Idempotency-Key, requests/s", "POST, no key /s"
)
PAGE = Measure("reading", "GET /jobs", "GET /jobs, a page of 50 among all jobs, p50, ms", less_is_better=True)
PAGE_FAILED = Measure(
    "reading", "GET /jobs?state=failed", "GET /jobs?state=failed, a page of 50, p50, ms", less_is_better=True
)
STARTUP = Measure("startup", "ms", "The help of the command line, ms", "help ms", less_is_better=True)
PROMOTED = Measure("due", "promoted s", "Many jobs due at once, until all are ready, s", less_is_better=True)
MEANWHILE = Measure("due", "run meanwhile", "Many jobs due at once, jobs run before all are ready")
BATCH = Measure("batch", "jobs/s", "Drain of one batch, until it is settled, jobs/s")

MEASURES = (
    *(ENQUEUE_SYNC, ENQUEUE_ASYNC, BULK, DRAIN, DRAIN_TWO, FAILING),
    *(GAPS_P50, GAPS_P99, IDLE_P50, IDLE_P99, STORM, NOTIFY, HTTP, HTTP_PLAIN),
    *(IDLE_MEMORY, PEAK_MEMORY, DRAIN_MEMORY, STARTUP, WORKER_CPU, SERVER_CPU),
)


class Results:
    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self._series: dict[tuple[str, str, str], dict[Round, float]] = {}
        for record in records:
            for figure, value in record.figures.items():
                series = self._series.setdefault((record.peer, record.part, figure), {})
                series[record.run, record.round] = value

    def series(self, peer: str, measure: Measure) -> dict[Round, float]:
        return self._series.get((peer, measure.part, measure.figure), {})

    def spread(self, peer: str, measure: Measure) -> Spread | None:
        return Spread.over(self.series(peer, measure).values())

    def ratio(self, ours: str, measure: Measure, theirs: str, *, other: Measure | None = None) -> Spread | None:
        """Ours by theirs, of the rounds in which both were measured."""
        return ratio(self.series(ours, measure), self.series(theirs, other or measure))

    def measured(self, measure: Measure, *, stores: Iterable[str] = STORES) -> Iterator[tuple[Entry, Spread]]:
        """All that have the figure: store by store, the best first."""
        for store in stores:
            found = [
                (entry, spread)
                for entry in LINEUP
                if entry.store == store and (spread := self.spread(entry.name, measure)) is not None
            ]
            found.sort(key=lambda pair: pair[1].median, reverse=not measure.less_is_better)
            yield from found

    def best(
        self, measures: Sequence[Measure], store: str, *, engines_only: bool = False
    ) -> tuple[Entry, Measure] | None:
        """The best peer on a store, and by which of its figures."""
        found = [
            (spread.median, entry, measure)
            for measure in measures
            for entry, spread in self.measured(measure, stores=[store])
            if not entry.is_ours and not entry.is_raw and (entry.is_engine or not engines_only)
        ]
        if not found:
            return None
        pick = min if measures[0].less_is_better else max
        _, entry, measure = pick(found, key=lambda candidate: candidate[0])
        return entry, measure
