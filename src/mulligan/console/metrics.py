"""Metrics for Prometheus. All are read from the store, so any process shows the whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from mulligan.console.arguments import METRICS_PREFIX, check
from mulligan.explain.context import is_alive
from mulligan.lifecycle import State
from mulligan.records.exposition import expose
from mulligan.records.metric import (
    ACTIVE,
    BREAKER,
    BREAKER_SECONDS,
    DEPTH,
    DUTY_RUN,
    LAG,
    METRICS,
    TOTALS,
    WORKERS,
    Metric,
    MetricDefinition,
    MetricType,
    Sample,
    TotalKey,
)
from mulligan.records.statistics import BOUNDS, Tally, new_tally
from mulligan.store.store import Store

Values = dict[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class MetricConsole:
    store: Callable[[], Store]
    prefix: Callable[[], str]
    """What the names begin with if nothing is given."""

    @check(prefix=METRICS_PREFIX)
    def text(self, prefix: str | None = None) -> str:
        return expose(self.read(), self.prefix() if prefix is None else prefix)

    def read(self) -> list[Metric]:
        store = self.store()
        totals = _by_name(store.totals())
        gauges = _gauges(store)
        found = {metric.name: _total(metric, totals.get(metric.name, {})) for metric in TOTALS}
        found |= {metric.name: _gauge(metric, values) for metric, values in gauges.items()}
        return [found[metric.name] for metric in METRICS]


def _by_name(totals: Mapping[TotalKey, Tally]) -> dict[str, dict[tuple[str, ...], Tally]]:
    found: dict[str, dict[tuple[str, ...], Tally]] = {}
    for key, tally in totals.items():
        found.setdefault(key.name, {})[key.labels] = tally
    return found


def _gauges(store: Store) -> dict[MetricDefinition, Values]:
    depths, now = store.depths(), store.now()
    runs: Values = {}
    for run in store.duty_runs():
        if run.at is not None:
            runs[run.duty,] = max(run.at.timestamp(), runs.get((run.duty,), 0.0))
    return {
        DEPTH: {("main",): depths[State.QUEUED], ("delayed",): depths[State.WAITING]},
        ACTIVE: {(): depths[State.RUNNING]},
        WORKERS: {(): sum(is_alive(worker, now) for worker in store.workers())},
        BREAKER: {(service,): 1 for service in store.open_breakers(limit=BREAKER.most)},
        DUTY_RUN: dict(sorted(runs.items())),
        LAG: {(): store.projection_status().lag.total_seconds()},
    }


def _gauge(metric: MetricDefinition, values: Values) -> Metric:
    samples = tuple(Sample(labels=_named(metric, labels), value=value) for labels, value in values.items())
    return Metric(name=metric.name, type=metric.type, about=metric.about, samples=samples)


def _total(metric: MetricDefinition, totals: Mapping[tuple[str, ...], Tally]) -> Metric:
    series = {labels: new_tally() for labels in metric.initial} | dict(totals)
    if metric.type is MetricType.HISTOGRAM:
        samples = [_histogram(metric, labels, tally) for labels, tally in series.items()]
        return Metric(name=metric.name, type=metric.type, about=metric.about, samples=tuple(samples), bounds=BOUNDS)
    return _gauge(metric, {labels: _count(metric, tally) for labels, tally in series.items()})


def _count(metric: MetricDefinition, tally: Tally) -> float:
    return tally.seconds if metric is BREAKER_SECONDS else tally.number


def _histogram(metric: MetricDefinition, labels: tuple[str, ...], tally: Tally) -> Sample:
    buckets = tuple(accumulate(tally.histogram))
    return Sample(labels=_named(metric, labels), value=buckets[-1], sum=tally.seconds, buckets=buckets)


def _named(metric: MetricDefinition, values: tuple[str, ...]) -> dict[str, str]:
    return {label.name: value for label, value in zip(metric.labels, values, strict=True)}
