"""The summary: the final state of the store, compared with the ids that the producer recorded."""

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mulligan import App, Job, State
from mulligan.cli.demo.incidents import PAGE
from mulligan.cli.demo.processes import DemoProcesses
from mulligan.console.documents import Document, document_of
from mulligan.lifecycle import LIVE

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
    jobs = [job for job in _all_jobs(processes.app) if job.id in ledger]
    failed = [job for job in jobs if job.state is State.FAILED]
    return DemoSummary(
        seconds=processes.elapsed,
        accepted=len(ledger),
        duplicates=producer.duplicates,
        states=Counter(job.state for job in jobs),
        failed=Counter(job.error_code or "" for job in failed),
        retries=events.codes("job.retried"),
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


def _all_jobs(app: App) -> Iterator[Job[Any]]:
    cursor = None
    while True:
        page = app.jobs(limit=PAGE, cursor=cursor)
        yield from page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def summary_document(summary: DemoSummary) -> Document:
    example = summary.example and summary.example.id
    return document_of(summary) | {"example": example, "is_clean": summary.is_clean}


def summary_lines(summary: DemoSummary) -> Iterator[str]:
    yield f"Summary after {summary.seconds:.0f} s"
    yield ""
    yield _line("accepted", summary.accepted, f"jobs; {summary.duplicates} more were enqueued twice and stored once")
    yield _line("succeeded", summary.states.get(State.SUCCEEDED, 0), _once(summary.not_once))
    yield _line("failed", sum(summary.failed.values()), _codes(summary.failed))
    yield _line("unfinished", sum(summary.states.get(state, 0) for state in LIVE), _under_way(summary.states))
    yield _line("retries", sum(summary.retries.values()), _codes(summary.retries))
    yield _line("rate limit waits", summary.waits, "as long as the gateway requested; no attempt is used up")
    yield _line("taken back", summary.taken_back, _taken_back(summary.killed))
    yield _line(
        "gateway calls",
        summary.calls,
        f"{summary.converted} conversions; {summary.repeated} calls repeated a finished one",
    )
    yield _line("jobs lost", summary.lost, _lost(summary.lost))


def _line(name: str, number: int, words: str) -> str:
    return f"  {name:<17}{number:>5}  {words}".rstrip()


def _once(not_once: int) -> str:
    return f"{not_once} of them not exactly once" if not_once else "each exactly once, by the event log"


def _lost(lost: int) -> str:
    return "accepted, but not in the store" if lost else "every accepted id was found in the store"


def _taken_back(killed: int) -> str:
    match killed:
        case 0:
            return "no worker was killed"
        case 1:
            return "jobs of 1 worker killed with SIGKILL"
    return f"jobs of {killed} workers killed with SIGKILL"


def _codes(codes: Mapping[str, int]) -> str:
    return ", ".join(f"{code} {number}" for code, number in sorted(codes.items()))


def _under_way(states: Mapping[State, int]) -> str:
    found = ", ".join(f"{state} {states[state]}" for state in LIVE if states.get(state))
    return f"{found}: stored, the next worker runs them" if found else ""


def next_lines(summary: DemoSummary, url: str, folder: Path) -> Iterator[str]:
    mulligan = f"{program()} --database {shlex.quote(url)}"
    yield "What to try next"
    yield from _step("list the failed jobs", f"{mulligan} jobs list --state failed")
    if summary.example is not None:
        yield from _step("explain what happened to one", f"{mulligan} jobs explain {summary.example.id}")
    if summary.example is not None and summary.example.state is State.FAILED:
        yield from _step("retry it", f"{mulligan} jobs retry {summary.example.id}")
    yield from _step("run it with a repaired gateway (Ctrl-C stops it)", f"{mulligan} worker {REPAIRED}")
    yield from _step("delete the database and the log of the workers", f"rm -r {folder}")


def _step(words: str, command: str) -> Iterable[str]:
    return f"  # {words}", f"  {command}"


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
