"""The evidence, indexed as the checks ask for it."""

from collections import defaultdict
from functools import cached_property

from chaos.counters import Counters
from chaos.evidence import Evidence
from chaos.ledger import Run
from chaos.workers import Life
from mulligan.records.event import Event
from mulligan.store.settle import SETTLE_EVENTS
from mulligan.values.moment import microseconds

# A claim that commits asynchronously is on disk three turns of the WAL writer later; generously.
UNFLUSHED_SECONDS = 2.0
# A life is noted when its process is already running. A number is given again after thousands of others.
NOTED_LATE_SECONDS = 1.0

Key = tuple[str, int]


class EvidenceIndex:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.jobs = {job.id: job for job in evidence.jobs}
        self.events: dict[str, list[Event]] = defaultdict(list)
        self.starts: dict[Key, Event] = {}
        self.settles: dict[Key, list[Event]] = defaultdict(list)
        self.refusals: list[Event] = []
        for event in evidence.events:
            self.events[event.job].append(event)
            if event.type == "job.started":
                self.starts[event.job, event.attempt] = event
            elif event.type in SETTLE_EVENTS and event.attempt:
                self.settles[event.job, event.attempt].append(event)
            elif event.type == "job.refused":
                self.refusals.append(event)
        self.runs: dict[Key, list[Run]] = defaultdict(list)
        for run in evidence.runs:
            self.runs[run.job, run.attempt].append(run)

    @cached_property
    def lives(self) -> dict[str, Life]:
        """By incarnation: as the store knew the worker, or else as the ledger does."""
        known = {run.worker: (run.pid, run.began) for run in self.evidence.runs}
        for record in self.evidence.workers:
            if record.started_at is not None:
                known[record.incarnation] = (record.pid, record.started_at.timestamp())
        found = {incarnation: self._life(pid, at) for incarnation, (pid, at) in known.items()}
        return {incarnation: life for incarnation, life in found.items() if life is not None}

    def _life(self, pid: int, at: float) -> Life | None:
        """The process that had this number then: numbers are given again in a long run."""
        begun = [life for life in self._by_pid[pid] if life.started <= at + NOTED_LATE_SECONDS]
        return max(begun, key=lambda life: life.started, default=None)

    @cached_property
    def _by_pid(self) -> dict[int, list[Life]]:
        found: dict[int, list[Life]] = defaultdict(list)
        for life in self.evidence.lives:
            found[life.pid].append(life)
        return found

    @cached_property
    def signs(self) -> dict[str, list[float]]:
        """When each worker did something the store knows of."""
        signs: dict[str, list[float]] = defaultdict(list)
        for event in self.evidence.events:
            if event.type == "job.started" or (event.type in SETTLE_EVENTS and self.is_own(event)):
                signs[event.data["worker"]].append(event.at.timestamp())
        return signs

    def is_own(self, settle: Event) -> bool:
        """By the worker that ran the attempt, not by one that found its lease expired."""
        return str(settle.data.get("by", "")).startswith(f"{settle.data.get('worker')}/")

    def has_claim(self, run: Run) -> bool:
        start = self.starts.get((run.job, run.attempt))
        return start is not None and (start.data["worker"], microseconds(start.at)) == (run.worker, run.claimed)

    def is_undone(self, run: Run) -> bool:
        """Its claim may have gone with a crash of the database, which is allowed to forget claims."""
        claimed = run.claimed / 1e6
        return any(crash - UNFLUSHED_SECONDS <= claimed <= crash + 0.1 for crash in self.evidence.crashes)

    def was_lost(self, run: Run) -> bool:
        settles = self.settles[run.job, run.attempt]
        return not self.has_claim(run) or any(not self.is_own(settle) for settle in settles)

    @property
    def counters(self) -> Counters:
        return self.evidence.counters

    @cached_property
    def held_runs(self) -> list[Run]:
        """Those whose claim the store knows of."""
        return [run for run in self.evidence.runs if self.has_claim(run)]

    def held_until(self, run: Run) -> float:
        """When it ended, was killed or lost its lease: from then on it takes no slot."""
        life = self.lives.get(run.worker)
        ends = [run.ended, None if life is None else life.killed]
        taken = [settle.at.timestamp() for settle in self.settles[run.job, run.attempt] if not self.is_own(settle)]
        return min([end for end in ends if end is not None] + taken, default=run.began)
