"""Numbers as tables: each subject's median and spread, and mulligan beside each peer, compared within a round."""

# ruff: noqa: RUF001 - people read real dashes and multiplication signs

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Record:
    """One measurement of one subject in one round."""

    round: int
    part: str
    subject: str
    numbers: dict[str, float]
    trouble: str | None
    load: float
    cpu_percent: float
    seconds: float


@dataclass(frozen=True)
class Table:
    part: str
    number: str
    title: str


TABLES = (
    Table("one", "jobs/s", "Enqueue one by one, jobs/s"),
    Table("bulk", "jobs/s", "Enqueue 1,000 a call, jobs/s"),
    Table("drain", "jobs/s", "Drain, jobs/s"),
    Table("drain", "worker CPU µs", "Drain, CPU of the worker, µs a job (less is better)"),
    Table("drain", "server CPU µs", "Drain, CPU of the PostgreSQL server, µs a job (less is better)"),
    Table("batch", "jobs/s", "Drain of one batch, until it is settled, jobs/s"),
    Table("fail-twice", "jobs/s", "Fail twice, then succeed: drain, jobs/s"),
    Table("latency", "p50 ms", "Latency of one job, 100 ms apart, p50 in ms (less is better)"),
    Table("latency", "p95 ms", "Latency of one job, 100 ms apart, p95 in ms (less is better)"),
    Table("latency", "10 ms apart p50 ms", "Latency of one job, 10 ms apart, p50 in ms (less is better)"),
    Table("latency", "10 ms apart p95 ms", "Latency of one job, 10 ms apart, p95 in ms (less is better)"),
    Table("latency", "idle MiB", "Memory of an idle worker, MiB (less is better)"),
    Table("drain", "peak MiB", "Memory of a draining worker at its peak, MiB (less is better)"),
)

PAIRS = (
    ("mulligan-pg", "pgqueuer"),
    ("mulligan-pg", "raw-loop-pg"),
    ("mulligan-sqlite", "huey-sqlite"),
)

TARGETS = (
    ("mulligan-pg", "pgqueuer", 1.3),
    ("mulligan-pg", "raw-loop-pg", 0.6),
    ("mulligan-sqlite", "huey-sqlite", 3.0),
)


BATCH_TARGET = 0.8


def tables(records: Sequence[Record]) -> str:
    parts = [part for table in TABLES if (part := _table(table, records))]
    return "\n\n".join([*parts, _targets(records), _troubles(records)]) + "\n"


def _table(table: Table, records: Sequence[Record]) -> str:
    by_subject = _values(table.part, table.number, records)
    if not any(value for values in by_subject.values() for value in values.values()):
        return ""
    lines = [f"## {table.title}", "", "| | median | min–max |", "|---|---:|---:|"]
    lines += [f"| {subject} | {_spread(values.values(), _rounded)} |" for subject, values in by_subject.items()]
    for ours, peer in PAIRS:
        if ratios := _ratios(by_subject, ours, peer):
            lines.append(f"| **{ours} ÷ {peer}** | {_spread(ratios, '{:.2f}'.format)} |")
    return "\n".join(lines)


def _values(part: str, number: str, records: Iterable[Record]) -> dict[str, dict[int, float]]:
    """Values by subject and round."""
    found: dict[str, dict[int, float]] = {}
    for record in sorted(records, key=lambda record: record.round):
        if record.part == part and number in record.numbers:
            found.setdefault(record.subject, {})[record.round] = record.numbers[number]
    return found


def _ratios(by_subject: dict[str, dict[int, float]], ours: str, peer: str) -> list[float]:
    """Of the rounds in which both were measured: what disturbed one is likely to have disturbed the other."""
    mine, theirs = by_subject.get(ours, {}), by_subject.get(peer, {})
    return [mine[number] / theirs[number] for number in mine if theirs.get(number)]


def _spread(values: Iterable[float], shown: Callable[[float], str]) -> str:
    values = list(values)
    return f"{shown(median(values))} | {shown(min(values))}–{shown(max(values))}"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _targets(records: Sequence[Record]) -> str:
    drains = _values("drain", "jobs/s", records)
    lines = ["## Targets for a drain"]
    for ours, peer, wanted in TARGETS:
        if ratios := _ratios(drains, ours, peer):
            word = "met" if median(ratios) >= wanted else "not met"
            lines.append(f"- {ours} ≥ {wanted:g} × {peer}: {word} ({median(ratios):.2f}, median of {len(ratios)})")
    batches = _values("batch", "jobs/s", records)
    for subject, values in batches.items():
        without = drains.get(subject, {})
        if ratios := [values[number] / without[number] for number in values if without.get(number)]:
            word = "met" if median(ratios) >= BATCH_TARGET else "not met"
            shown = f"{median(ratios):.2f}, median of {len(ratios)}"
            lines.append(f"- {subject}, with a batch ≥ {BATCH_TARGET:g} × without: {word} ({shown})")
    return "\n".join(lines)


def _troubles(records: Sequence[Record]) -> str:
    loads = [record.load for record in records]
    lines = (
        [f"Load of the machine at the start of each measurement: {min(loads):.1f}–{max(loads):.1f}."] if loads else []
    )
    for record in records:
        if record.trouble:
            lines.append(f"- round {record.round + 1}, {record.part}, {record.subject}: {record.trouble}")
        if record.numbers.get("run too often"):
            times = int(record.numbers["run too often"])
            lines.append(f"- round {record.round + 1}, {record.part}, {record.subject}: {times} jobs ran too often")
    return "\n".join(lines)
