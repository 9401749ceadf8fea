"""docs/benchmarks.md, made from results. Nothing in it is typed manually."""

# ruff: noqa: RUF001 - people read real dashes and multiplication signs

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from bench.lineup import LINEUP, Entry
from bench.machine import QUIET_FOREIGN, QUIET_IDLE
from bench.records import Record, Run
from bench.results import DRAIN, MEASURES, OURS, STORES, Measure, Results
from bench.sizes import WHOLE
from bench.statistics import Spread
from bench.targets import ENQUEUE, TARGETS, Target

HEAD = """# Benchmarks

<!-- Written by `make bench` from measurements. Do not edit. -->

mulligan beside other Python job queues, on one machine, in one run. [bench/README.md](../bench/README.md) says what is
measured and how to run it.
"""
RATES = """\
Rates are medians over the rounds, with the least and the most. A ratio is computed in each round, and then its median
is taken, because what disturbs one measurement usually disturbs its neighbours too. A drain ends when the *store* says
that nothing is left, so late acknowledgements count.
"""
PROMISES = """\
mulligan keeps every job, writes an event for every transition, fences every settle and commits it synchronously. Others
promise less. Redis runs without AOF and RDB, its fastest setting: **every job is lost when that server crashes**. The
peers on Redis stand beside mulligan on PostgreSQL, because there is no mulligan on Redis.
"""
LOSES = "without AOF and RDB, a crash of the server loses every job"


def document(runs: Sequence[Run], records: Sequence[Record]) -> str:
    results = Results(records)
    parts = [
        HEAD,
        warning(runs, records),
        "![Rates and latencies as bars](benchmarks.svg)\n",
        "## Targets\n",
        targets(results, doubt(runs, records)),
        "## Where another is ahead\n",
        ahead(results),
        "## Figures\n",
        RATES,
        PROMISES,
        *overview(results),
        growth(results),
        own(results),
        "<details><summary>Every figure with its spread and its ratio</summary>\n",
        *figures(results),
        "</details>\n",
        "## Settings\n",
        settings(results),
        "## Conditions\n",
        conditions(runs, records),
        troubles(runs, records),
    ]
    return "\n".join(part for part in parts if part)


def tables(runs: Sequence[Run], records: Sequence[Record]) -> str:
    """For a terminal: what was measured, without what is known."""
    results = Results(records)
    judged = targets(results, doubt(runs, records))
    parts = [warning(runs, records), judged, *figures(results), growth(results), own(results)]
    return "\n".join(part for part in [*parts, troubles(runs, records)] if part)


def warning(runs: Sequence[Run], records: Sequence[Record]) -> str:
    said = []
    if any(run.sizes != vars(WHOLE) for run in runs):
        said.append("**Fewer jobs than usual were used: this shows that everything runs, and proves nothing.**")
    if busy := [record for record in records if not _is_quiet(record)]:
        most = max(record.foreign for record in records)
        said.append(
            f"**The machine was not quiet in {len(busy)} of {len(records)} measurements:** other processes used up to "
            f"{most:.1f} CPUs. Rates are too low then, and ratios are uncertain."
        )
    return "".join(f"> {line}\n>\n" for line in said).removesuffix(">\n")


def _is_quiet(record: Record) -> bool:
    return record.foreign <= QUIET_FOREIGN and record.stolen <= QUIET_FOREIGN and record.idle >= QUIET_IDLE


# Targets


def doubt(runs: Sequence[Run], records: Sequence[Record]) -> str:
    """Why targets are not judged by these results, if they are not."""
    if any(run.sizes != vars(WHOLE) for run in runs):
        return "not judged: too few jobs"
    busy = sum(not _is_quiet(record) for record in records)
    return "not judged: busy machine" if 2 * busy > len(records) else ""


def targets(results: Results, doubt: str = "") -> str:
    rows = [row for target in TARGETS if (row := _target(target, results, doubt))]
    heads = ("measure", "store", "mulligan", "best peer", "÷ best peer", "target", "found", "result")
    return _table(heads, rows)


def _target(target: Target, results: Results, doubt: str) -> Sequence[str] | None:
    ours, found = results.spread(target.ours, target.measure), target.found(results)
    if ours is None or found is None:
        return None
    best = results.best(ENQUEUE if target.measure in ENQUEUE else [target.measure], target.store)
    theirs = best and results.spread(best[0].name, best[1])
    ratio = best and results.ratio(target.ours, target.measure, best[0].name, other=best[1])
    missed = f"missed{target.why_not and ': '}{target.why_not}"
    return (
        target.title,
        STORES[target.store],
        number(ours.median),
        f"{number(theirs.median)} ({best[0].name})" if best and theirs else "–",
        f"{ratio.median:.2f}" if ratio else "–",
        target.text(),
        spread(found, digits=2) if target.against else number(found.median),
        doubt or ("met" if target.is_met(found) else missed),
    )


def ahead(results: Results) -> str:
    """Every peer that is better than mulligan at something, and what it does not do."""
    rows, named = [], {}
    for measure in MEASURES:
        for store, ours in OURS.items():
            if (mine := results.spread(ours, measure)) is None:
                continue
            better = {
                entry.name: theirs.median
                for entry, theirs in results.measured(measure, stores=[store])
                if not (entry.is_ours or entry.is_raw) and measure.is_better(theirs.median, mine.median)
            }
            if better:
                shown = ", ".join(f"{name} {number(value)}" for name, value in better.items())
                rows.append((measure.title, STORES[store], number(mine.median), shown))
                named.update(better)
    if not rows:
        return "Nowhere.\n"
    notes = [f"- {entry.name}: {entry.lacks}" for entry in LINEUP if entry.name in named and entry.lacks]
    return "\n".join([_table(("measure", "store", "mulligan", "ahead"), rows), *notes, "- on Redis: " + LOSES, ""])


# Figures


def overview(results: Results) -> Iterator[str]:
    """The medians, one table a store: the fastest drain first."""
    for store, title in STORES.items():
        found = {measure: dict(results.measured(measure, stores=[store])) for measure in (DRAIN, *MEASURES)}
        measures = [measure for measure in MEASURES if found[measure]]
        entries = dict.fromkeys(entry for spreads in found.values() for entry in spreads)
        if entries:
            rows = [_medians(entry, measures, results) for entry in entries]
            yield f"### {title}\n"
            yield _table(("", *(measure.short for measure in measures)), rows)


def _medians(entry: Entry, measures: Sequence[Measure], results: Results) -> Sequence[str]:
    found = [results.spread(entry.name, measure) for measure in measures]
    name = f"**{entry.name}**" if entry.is_ours else entry.name
    return [name, *(number(value.median) if value else "" for value in found)]


def figures(results: Results) -> Iterator[str]:
    for measure in MEASURES:
        rows = [_figure(entry, found, measure, results) for entry, found in results.measured(measure)]
        if rows:
            less = " (less is better)" if measure.less_is_better else ""
            yield f"#### {measure.title}{less}\n"
            yield _table(("store", "peer", "median", "least–most", "mulligan ÷ it"), rows)


def _figure(entry: Entry, found: Spread, measure: Measure, results: Results) -> Sequence[str]:
    ratio = None if entry.is_ours else results.ratio(OURS[entry.store], measure, entry.name)
    name = f"**{entry.name}**" if entry.is_ours else entry.name
    least_most = f"{number(found.least)}–{number(found.most)}" if found.rounds > 1 else "one round"
    return STORES[entry.store], name, number(found.median), least_most, spread(ratio, digits=2) if ratio else ""


def growth(results: Results) -> str:
    """Of every peer that was measured beside a backlog: the ratio to its own empty table."""
    backlogs = ("future", "held", "unhandled", "finished", "owners")
    empty = Measure("growth-empty", "jobs/s", "")
    rows = []
    for entry, found in results.measured(empty):
        ratios = [results.ratio(entry.name, _growth(backlog), entry.name, other=empty) for backlog in backlogs]
        rows.append([entry.name, number(found.median), *(spread(ratio, digits=2) if ratio else "" for ratio in ratios)])
    if not rows:
        return ""
    title = "### The first jobs beside a backlog, as a ratio of the same on an empty table\n\n"
    return title + _table(("peer", "empty, jobs/s", *backlogs), rows)


def _growth(backlog: str) -> Measure:
    return Measure(f"growth-{backlog}", "jobs/s", "")


def own(results: Results) -> str:
    """What only mulligan is asked."""
    rows = []
    for part in ("due", "batch", "reading"):
        names = dict.fromkeys(name for record in results.records if record.part == part for name in record.figures)
        for name in names:
            found = [results.spread(peer, Measure(part, name, "")) for peer in ("mulligan-postgres", "mulligan-sqlite")]
            rows.append([part, name, *(number(value.median) if value else "" for value in found)])
    if not rows:
        return ""
    title = "### mulligan alone: many jobs due at once, a batch, counts and pages in ms\n\n"
    return title + _table(("part", "figure", "PostgreSQL", "SQLite"), rows)


# Conditions


def settings(results: Results) -> str:
    peers = {record.peer for record in results.records}
    rows = [(entry.name, STORES[entry.store], entry.settings) for entry in LINEUP if entry.name in peers]
    return _table(("peer", "store", "settings"), rows)


def conditions(runs: Sequence[Run], records: Sequence[Record]) -> str:
    """What is the same in several runs is said once."""
    lines = [f"- {name}: {value}" for run in runs for name, value in run.machine.items()]
    for run in runs:
        lines += [f"- versions, {name}: {_pairs(values)}" for name, values in run.versions.items() if values]
    for run in runs:
        lines += [f"- settings of {name}: {_pairs(values)}" for name, values in run.settings.items()]
        lines.append(f"- sizes: {_pairs({name: f'{value:,g}' for name, value in run.sizes.items()})}")
    lines += [line for run in runs for line in _run(run, [record for record in records if record.run == run.started])]
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _run(run: Run, records: Sequence[Record]) -> Iterator[str]:
    if records:
        minutes = sum(record.seconds for record in records) / 60
        measured = f"{len(records)} measurements in {minutes:.0f} minutes, {run.rounds} round{'s' * (run.rounds > 1)}"
        yield f"- run of {run.started[:16].replace('T', ' ')} UTC: {measured}; {'; '.join(_busy(records))}"


def _pairs(values: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" if value else f"{name} ''" for name, value in values.items())


def _busy(records: Sequence[Record]) -> Iterator[str]:
    def over(values: Iterable[float]) -> str:
        found = list(values)
        return f"{median(found):,.2f} (most {max(found):,.2f})"

    yield f"CPUs used by others meanwhile: {over(record.foreign for record in records)}"
    yield f"CPUs taken by the host: {over(record.stolen for record in records)}"
    synced = [record.syncs for record in records]
    yield f"confirmed writes of 8 KiB a second: {median(synced):,.0f} ({min(synced):,.0f}–{max(synced):,.0f})"


def troubles(runs: Sequence[Run], records: Sequence[Record]) -> str:
    lines = [f"- {peer}: not measured. {reason}" for run in runs for peer, reason in run.troubles.items()]
    for record in records:
        where = f"- {record.peer}, {record.part}, round {record.round + 1}"
        if record.trouble:
            lines.append(f"{where}: {' '.join(record.trouble.split())}")
        if times := record.figures.get("run too often"):
            lines.append(f"{where}: {times:,.0f} jobs ran more often than they should")
    return "## Troubles\n\n" + "\n".join(dict.fromkeys(lines)) + "\n" if lines else ""


# Words


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(found: Spread, *, digits: int) -> str:
    middle = f"{found.median:.{digits}f}"
    return middle if found.rounds == 1 else f"{middle} ({found.least:.{digits}f}–{found.most:.{digits}f})"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
