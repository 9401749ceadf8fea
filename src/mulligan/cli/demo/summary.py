"""The summary: what the store says in the end, held against the producer's own ledger."""

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mulligan import App, Job, State
from mulligan.cli.demo.stage import Stage
from mulligan.cli.demo.story import PAGE
from mulligan.console.documents import Document, document_of
from mulligan.lifecycle import LIVE

MENDED = "mulligan.cli.demo.mended:app"


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
    """Succeeded jobs whose log does not say so exactly once."""
    example: Job[Any] | None
    """A job to look at, failed if there is one, with the longest history."""

    @property
    def is_clean(self) -> bool:
        return self.lost == 0 and self.not_once == 0


def sum_up(stage: Stage) -> DemoSummary:
    """To be made when the stage is cleared: nothing moves any more."""
    story, producer, gateway = stage.story, stage.producer, stage.gateway
    story.follow()
    ledger = set(producer.accepted)
    jobs = [job for job in _all_jobs(stage.app) if job.id in ledger]
    failed = [job for job in jobs if job.state is State.FAILED]
    return DemoSummary(
        seconds=stage.elapsed,
        accepted=len(ledger),
        duplicates=producer.duplicates,
        states=Counter(job.state for job in jobs),
        failed=Counter(job.error_code or "" for job in failed),
        retries=story.codes("job.retried"),
        waits=story.rate_limit_waits,
        killed=stage.killed,
        taken_back=story.taken_back,
        calls=gateway.calls,
        converted=gateway.converted,
        repeated=gateway.repeated,
        lost=len(ledger - {job.id for job in jobs}),
        not_once=sum(story.successes[job.id] != 1 for job in jobs if job.state is State.SUCCEEDED),
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
    yield _line("accepted", summary.accepted, f"jobs; {summary.duplicates} more were asked for twice and stored once")
    yield _line("succeeded", summary.states.get(State.SUCCEEDED, 0), _once(summary.not_once))
    yield _line("failed for good", sum(summary.failed.values()), _codes(summary.failed))
    yield _line("under way", sum(summary.states.get(state, 0) for state in LIVE), _under_way(summary.states))
    yield _line("retries", sum(summary.retries.values()), _codes(summary.retries))
    yield _line("rate limit waits", summary.waits, "as long as the gateway asked for; no attempt used up")
    yield _line("taken back", summary.taken_back, _taken_back(summary.killed))
    yield _line(
        "gateway calls",
        summary.calls,
        f"{summary.converted} conversions; {summary.repeated} calls found theirs already done",
    )
    yield _line("jobs lost", summary.lost, _lost(summary.lost))


def _line(name: str, number: int, words: str) -> str:
    return f"  {name:<17}{number:>5}  {words}".rstrip()


def _once(not_once: int) -> str:
    return f"{not_once} of them not exactly once" if not_once else "each exactly once, says the event log"


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
    return f"{found}: stored, the next worker goes on with them" if found else ""


def next_lines(summary: DemoSummary, url: str, folder: Path) -> Iterator[str]:
    mulligan = f"{program()} --database {shlex.quote(url)}"
    yield "What to try next"
    yield from _step("see what failed", f"{mulligan} jobs list --state failed")
    if summary.example is not None:
        yield from _step("ask what happened to one of them", f"{mulligan} jobs explain {summary.example.id}")
    if summary.example is not None and summary.example.state is State.FAILED:
        yield from _step("start it again by hand", f"{mulligan} jobs retry {summary.example.id}")
    yield from _step("let it run, beside a gateway that was mended (Ctrl-C ends it)", f"{mulligan} worker {MENDED}")
    yield from _step("the database and the workers' log stay until you delete them", f"rm -r {folder}")


def _step(words: str, command: str) -> Iterable[str]:
    return f"  # {words}", f"  {command}"


def program() -> str:
    """The command as it can be typed here, whether or not its folder is on the PATH."""
    script = Path(sys.executable).parent / "mulligan"
    found = shutil.which("mulligan")
    if found is not None and Path(found) == script:
        return "mulligan"
    if not script.exists():
        return f"{shlex.quote(sys.executable)} -m mulligan"
    here = Path.cwd()
    return shlex.quote(str(script.relative_to(here) if script.is_relative_to(here) else script))
