"""Metrics: what a process tells Prometheus. `METRICS` lists every one; the reference is made from it.

Counters and histograms are totals that the duty `project` adds up from the event log. They never fall: neither when old
statistics are deleted nor when statistics are rebuilt. Gauges are read from the store when they are asked for.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

# Label values for what finds no room among the series of a metric.
OTHER = "other"
# A metric has at most so many series with values of their own. A series of a histogram has many lines.
MOST_SERIES, MOST_HISTOGRAMS = 200, 100


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Label(NamedTuple):
    """`values` are all that it can have; empty if users choose them."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDefinition:
    """`most`: further series are counted under `other`."""

    name: str
    type: MetricType
    about: str
    labels: tuple[Label, ...] = ()
    most: int = MOST_SERIES

    @property
    def initial(self) -> tuple[tuple[str, ...], ...]:
        """The series that exist before anything was counted: those whose labels are known."""
        if not self.labels:
            return ((),)
        if len(self.labels) == 1:
            return tuple((value,) for value in self.labels[0].values)
        return ()

    def other(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """The labels of the series that counts what finds no room."""
        return tuple(value if label.values else OTHER for label, value in zip(self.labels, labels, strict=True))


KIND, SERVICE, ERROR_CODE = Label("kind"), Label("service"), Label("error_code")
ATTEMPT = Label("attempt", ("2", "3", "4", "5", "6", "7", "8", "9", "10"))


def _counter(name: str, about: str, *labels: Label, most: int = MOST_SERIES) -> MetricDefinition:
    return MetricDefinition(name=name, type=MetricType.COUNTER, about=about, labels=labels, most=most)


def _histogram(name: str, about: str, *labels: Label) -> MetricDefinition:
    return MetricDefinition(name=name, type=MetricType.HISTOGRAM, about=about, labels=labels, most=MOST_HISTOGRAMS)


def _gauge(name: str, about: str, *labels: Label) -> MetricDefinition:
    return MetricDefinition(name=name, type=MetricType.GAUGE, about=about, labels=labels)


CREATED = _counter("jobs_created_total", "Jobs that were accepted.", KIND)
COMPLETED = _counter("jobs_completed_total", "Jobs that succeeded.", KIND)
FAILED = _counter("jobs_failed_total", "Jobs that failed permanently.", ERROR_CODE, KIND, most=500)
CANCELLED = _counter("jobs_cancelled_total", "Jobs that were cancelled.", KIND)
NON_RETRYABLE = _counter(
    "jobs_non_retryable_total", "Jobs that failed permanently because their error is final.", ERROR_CODE
)
RETRIED = _counter(
    "jobs_retried_total",
    "Retries: decided by a policy (automatic), or by a person (manual).",
    Label("type", ("automatic", "manual")),
)
MANUAL_RETRIES = _counter("manual_retry_total", "Manual retries.")
SCHEDULED = _counter(
    "retries_scheduled_total", "Automatic retries that were scheduled, by the error of the attempt.", ERROR_CODE
)
RETRY_OUTCOMES = _counter(
    "retry_outcomes_total",
    "Second and later attempts that ended, by the number of the attempt (10: 10 and more).",
    ATTEMPT,
    Label("outcome", ("succeeded", "retried", "failed")),
)
RECLAIMED = _counter(
    "stuck_recovered_total",
    "Attempts that were taken from their worker, because it was lost or the attempt was stuck.",
    Label("cause", ("worker_lost", "stuck")),
)
BREAKER_SECONDS = _counter(
    "breaker_open_seconds_total", "Seconds that the circuit breaker of a service was open.", SERVICE, most=100
)
DURATION = _histogram(
    "job_processing_duration_seconds", "How long attempts took that succeeded, were retried or failed.", KIND
)
WAIT = _histogram("job_wait_seconds", "How long jobs were ready before an attempt started.", KIND)
LATENCY = _histogram(
    "service_latency_seconds",
    "How long recorded calls of services took, at most 20 of each attempt.",
    SERVICE,
    Label("outcome", ("ok", "failed")),
)
DEPTH = _gauge(
    "queue_depth",
    "Jobs that are ready to run (main), and jobs that wait for their time, a retry or a limit (delayed).",
    Label("set", ("main", "delayed")),
)
ACTIVE = _gauge("jobs_active", "Jobs that are running.")
WORKERS = _gauge("workers_alive", "Workers that sent a heartbeat in time.")
BREAKER = _gauge("breaker_open", "1 for each service whose circuit breaker is open; at most 200 of them.", SERVICE)
DUTY_RUN = _gauge(
    "duty_last_run_timestamp_seconds",
    "When a duty last ran, as Unix time. Runs are recorded every few seconds.",
    Label("duty"),
)
LAG = _gauge("projection_lag_seconds", "How far these totals are behind the event log.")

TOTALS = (
    *(CREATED, COMPLETED, FAILED, CANCELLED, NON_RETRYABLE, RETRIED, MANUAL_RETRIES, SCHEDULED, RETRY_OUTCOMES),
    *(RECLAIMED, BREAKER_SECONDS, DURATION, WAIT, LATENCY),
)
METRICS = (*TOTALS, DEPTH, ACTIVE, WORKERS, BREAKER, DUTY_RUN, LAG)
BY_NAME = {metric.name: metric for metric in METRICS}


class TotalKey(NamedTuple):
    """One series of a metric that is added up."""

    name: str
    labels: tuple[str, ...] = ()


class BreakerChange(NamedTuple):
    """The circuit breaker of a service has opened, or is not open any longer."""

    service: str
    at: int
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One series of a metric. Of a histogram, `value` is the number of observations, `sum` their sum in seconds, and
    `buckets` how many were at most as long as each of the bounds, the last without a bound."""

    labels: dict[str, str]
    value: float
    sum: float | None = None
    buckets: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric with its series. `bounds` are those of a histogram, in seconds."""

    name: str
    type: MetricType
    about: str
    samples: tuple[Sample, ...]
    bounds: tuple[float, ...] | None = None
