"""What mulligan is to reach. Each is a row of docs/benchmarks.md with what was measured."""

# ruff: noqa: RUF001 - people read real multiplication signs

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench import results as measured
from bench.results import Measure, Results
from bench.statistics import Spread

POSTGRES, SQLITE = "mulligan-postgres", "mulligan-sqlite"
RAW = "raw insert and commit"
ENQUEUE = (measured.ENQUEUE_ASYNC, measured.ENQUEUE_SYNC)
EMPTY = Measure("growth-empty", "jobs/s", "")
BACKLOGS = {
    "future": "for a later time",
    "held": "held by a service",
    "unhandled": "of an unhandled kind",
    "finished": "finished",
    "owners": "of many owners",
}


@dataclass(frozen=True)
class Target:
    """A bound on a figure of ours: by itself, or divided by another's in the same round."""

    title: str
    ours: str
    measure: Measure
    bound: float
    against: str = ""
    """A peer, `best engine`, or nothing for a bound on the figure itself."""
    others: tuple[Measure, ...] = ()
    """Figures of the other, if not the same; the best of them counts."""
    named: str = ""
    """What the other is called in the table, if not by its name."""
    why_not: str = ""
    """Why it cannot be reached, if it cannot."""

    @property
    def store(self) -> str:
        return self.ours.removeprefix("mulligan-")

    def found(self, results: Results) -> Spread | None:
        """What is compared with the bound."""
        if not self.against:
            return results.spread(self.ours, self.measure)
        rival = self.rival(results)
        return rival and results.ratio(self.ours, self.measure, rival[0], other=rival[1])

    def rival(self, results: Results) -> tuple[str, Measure] | None:
        others = self.others or (self.measure,)
        if self.against == "best engine":
            best = results.best(others, self.store, engines_only=True)
            return best and (best[0].name, best[1])
        having = [(other, spread.median) for other in others if (spread := results.spread(self.against, other))]
        return (self.against, max(having, key=lambda pair: pair[1])[0]) if having else None

    def is_met(self, found: Spread) -> bool:
        return found.median <= self.bound if self.measure.less_is_better else found.median >= self.bound

    def text(self) -> str:
        sign = "≤" if self.measure.less_is_better else "≥"
        return f"{sign} {self.bound:,g}" + (f" × {self.named or self.against}" if self.against else "")


def _targets() -> Iterator[Target]:
    plain, awaited = measured.ENQUEUE_SYNC, measured.ENQUEUE_ASYNC
    title = "enqueue one by one, plain calls"
    yield Target(title, POSTGRES, plain, 1.0, "pgqueuer", ENQUEUE)
    yield Target(title, POSTGRES, plain, 0.7, "raw-postgres", named=RAW)
    yield Target(title, SQLITE, plain, 0.7, "raw-sqlite", named=RAW)
    title = "enqueue one by one, from asyncio"
    yield Target(title, POSTGRES, awaited, 1.0, "pgqueuer")
    yield Target(title, POSTGRES, awaited, 0.6, "raw-postgres", (plain,), RAW)
    yield Target("bulk, 1,000 a call", POSTGRES, measured.BULK, 1.0, "pgqueuer")
    # 15,000 a second where a raw bulk insert gives 107,000.
    yield Target("bulk, 1,000 a call", SQLITE, measured.BULK, 0.14, "raw-sqlite", named="raw bulk insert")
    yield Target("drain, one worker", POSTGRES, measured.DRAIN, 1.35, "pgqueuer")
    yield Target("drain, two workers", POSTGRES, measured.DRAIN_TWO, 1.15, "pgqueuer")
    yield Target("drain, one worker", SQLITE, measured.DRAIN, 5.0, "huey-sqlite")
    for ours in (POSTGRES, SQLITE):
        without = "the same without a batch"
        yield Target("drain of one batch", ours, measured.BATCH, 0.8, ours, (measured.DRAIN,), without)
    yield Target("fail twice, then succeed", POSTGRES, measured.FAILING, 4.0, "best engine")
    # Three times the 490 a second of November 2026, on the machine of that time.
    yield Target("fail twice, then succeed, jobs/s", SQLITE, measured.FAILING, 1_470)
    for measure in (measured.GAPS_P50, measured.GAPS_P99, measured.IDLE_P50, measured.IDLE_P99):
        yield Target(measure.title, POSTGRES, measure, 1.0, "pgqueuer")
    yield Target(measured.GAPS_P50.title, SQLITE, measured.GAPS_P50, 3)
    yield Target(measured.IDLE_P50.title, SQLITE, measured.IDLE_P50, 3)
    yield Target("NOTIFY/s of a process in a storm of enqueues", POSTGRES, measured.NOTIFY, 200)
    for measure in (measured.HTTP, measured.HTTP_PLAIN):
        yield Target(measure.title, POSTGRES, measure, 0.6, "raw-fastapi", named="a FastAPI route with one INSERT")
    for ours in (POSTGRES, SQLITE):
        yield Target(measured.PAGE.title, ours, measured.PAGE, 25)
        yield Target(measured.PAGE_FAILED.title, ours, measured.PAGE_FAILED, 25)
    for ours in (POSTGRES, SQLITE):
        for backlog, title in BACKLOGS.items():
            growth = Measure(f"growth-{backlog}", "jobs/s", "")
            yield Target(f"beside jobs {title}", ours, growth, 0.8, ours, (EMPTY,), "the empty table")
    yield Target("many jobs due at once: all ready, s", POSTGRES, measured.PROMOTED, 2)
    yield Target("many jobs due at once: all ready, s", SQLITE, measured.PROMOTED, 5)
    for ours in (POSTGRES, SQLITE):
        yield Target("many jobs due at once: run before all are ready", ours, measured.MEANWHILE, 1)
        yield Target("idle worker, MiB", ours, measured.IDLE_MEMORY, 45)
        yield Target("peak of the longest drain, MiB", ours, measured.PEAK_MEMORY, 90)
        yield Target("`mulligan --help`, ms", ours, measured.STARTUP, 300)


TARGETS: Sequence[Target] = tuple(_targets())
