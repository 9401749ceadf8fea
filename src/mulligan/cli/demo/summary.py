"""The summary: the final state of the store, compared with the ids that the producer recorded."""

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mulligan import Job, State
from mulligan.cli.demo.processes import DemoProcesses
from mulligan.explain.words import counted
from mulligan.lifecycle import LIVE
from mulligan.records.document import Document, document_of

REPAIRED = "mulligan.cli.demo.repaired:app"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSummary:
    seconds: float
    accepted: int
    duplicates: int
    states: Mapping[State, int]
    failed: Mapping[str, int]
    retries: Mapping[str, int]
    waits: int
    killed: int
    taken_back: int
    calls: int
    converted: int
    repeated: int
    lost: int
    not_once: int
    """Succeeded jobs without exactly one success in the log."""
    example: Job[Any] | None
    """A job to show: a failed one if possible, with the most attempts."""

    @property
    def is_clean(self) -> bool:
        return self.lost == 0 and self.not_once == 0


def sum_up(processes: DemoProcesses) -> DemoSummary:
    """Sum up the stopped demo."""
    events, producer, gateway = processes.events, processes.producer, processes.gateway
    events.follow()
    ledger = set(producer.accepted)
    jobs = [exported.job for exported in processes.app.export() if exported.job.id in ledger]
    failed = [job for job in jobs if job.state is State.FAILED]
    return DemoSummary(
        seconds=processes.elapsed,
        accepted=len(ledger),
        duplicates=producer.duplicates,
        states=Counter(job.state for job in jobs),
        failed=Counter(job.error_code or "" for job in failed),
        retries=events.retries,
        waits=events.rate_limit_waits,
        killed=processes.killed,
        taken_back=events.taken_back,
        calls=gateway.calls,
        converted=gateway.converted,
        repeated=gateway.repeated,
        lost=len(ledger - {job.id for job in jobs}),
        not_once=sum(events.successes[job.id] != 1 for job in jobs if job.state is State.SUCCEEDED),
        example=max(failed or jobs, key=lambda job: job.attempt, default=None),
    )


def summary_document(summary: DemoSummary) -> Document:
    example = summary.example and summary.example.id
    return document_of(summary) | {"example": example, "is_clean": summary.is_clean}


def summary_lines(summary: DemoSummary) -> Iterator[str]:
    states, not_once = summary.states, summary.not_once
    once = f"{not_once} of them not exactly once" if not_once else "each exactly once, by the event log"
    killed = f"jobs of {counted(summary.killed, 'worker')} killed with SIGKILL"
    gateway = f"{summary.converted} conversions; {summary.repeated} calls repeated a finished one"
    lost = "accepted, but not in the store" if summary.lost else "every accepted id was found in the store"
    rows = (
        ("accepted", summary.accepted, f"jobs; {summary.duplicates} more were enqueued twice and stored once"),
        ("succeeded", states.get(State.SUCCEEDED, 0), once),
        ("failed", sum(summary.failed.values()), _codes(summary.failed)),
        ("unfinished", sum(states.get(state, 0) for state in LIVE), _under_way(states)),
        ("retries", sum(summary.retries.values()), _codes(summary.retries)),
        ("rate limit waits", summary.waits, "as long as the gateway requested; no attempt is used up"),
        ("taken back", summary.taken_back, killed if summary.killed else "no worker was killed"),
        ("gateway calls", summary.calls, gateway),
        ("jobs lost", summary.lost, lost),
    )
    yield f"Summary after {summary.seconds:.0f} s"
    yield ""
    yield from (f"  {name:<17}{number:>5}  {words}".rstrip() for name, number, words in rows)


def _codes(codes: Mapping[str, int]) -> str:
    return ", ".join(f"{code} {number}" for code, number in sorted(codes.items()))


def _under_way(states: Mapping[State, int]) -> str:
    found = ", ".join(f"{state} {states[state]}" for state in LIVE if states.get(state))
    return f"{found}: stored, the next worker runs them" if found else ""


def next_lines(summary: DemoSummary, url: str, folder: Path) -> Iterator[str]:
    mulligan, example = f"{program()} --database {shlex.quote(url)}", summary.example
    steps = {"list the failed jobs": f"{mulligan} jobs list --state failed"}
    if example is not None:
        steps["explain what happened to one"] = f"{mulligan} jobs explain {example.id}"
    if example is not None and example.state is State.FAILED:
        steps["retry it"] = f"{mulligan} jobs retry {example.id}"
    steps["run it with a repaired gateway (Ctrl-C stops it)"] = f"{mulligan} worker {REPAIRED}"
    steps["delete the database and the log of the workers"] = f"rm -r {folder}"
    yield "What to try next"
    for words, command in steps.items():
        yield f"  # {words}"
        yield f"  {command}"


def program() -> str:
    """The command to type here, even if its folder is not on the PATH."""
    script = Path(sys.executable).parent / "mulligan"
    found = shutil.which("mulligan")
    if found is not None and Path(found) == script:
        return "mulligan"
    if not script.exists():
        return f"{shlex.quote(sys.executable)} -m mulligan"
    here = Path.cwd()
    return shlex.quote(str(script.relative_to(here) if script.is_relative_to(here) else script))
