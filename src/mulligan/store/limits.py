"""Limits: how many jobs of a kind, a queue or an owner may be queued or running at once.

The limits are stored, so they apply to every process that promotes. Taken slots are counted from the jobs themselves.
One process at a time admits jobs: it takes the lock in one statement and counts in the next, so its count includes
everything admitted before. A process that does not get the lock does not wait; it checks again soon.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Lease, NewJob
from mulligan.records.limit import EVERY_OWNER, NO_LIMITS, Limit, LimitBook, LimitRecord, SpendingRecord, subjects_of
from mulligan.records.subscription import DELIVER_KIND, MOST_OF_SENDER, sender_of
from mulligan.store.budgets import BudgetOperations
from mulligan.store.messages import Claim
from mulligan.store.rows import Record, to_duration, to_json
from mulligan.store.services import ServiceOperations
from mulligan.store.session import Rows, Session

GATE = "limit/"
# Sorts after every gate of a limit.
END = "limit0"
# The subjects whose slots are counted.
COUNTED = ("kind/", "queue/", "owner/", "sender/")
# How often a process announces its limits again, and how long they apply if no process does.
ANNOUNCED_EVERY = to_duration(timedelta(minutes=1))
LIMITS_KEPT = to_duration(timedelta(minutes=10))
# Per claim: gates checked, jobs considered at once, and passes.
GATES = 50
FEWEST, MOST = 20, 1_000
PASSES = 10
SWEPT_AT_ONCE = 1_000
# Microseconds until the next check: if another process was admitting, and if there are more gates than were checked.
CHECK_AGAIN = 10_000
CHECK_MORE_GATES = 100_000
# Gates remembered because a job that was settled here may have freed a slot.
REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that waits under `gate`."""

    id: str
    gate: str
    kind: str
    queue: str
    owner: str
    service: str
    priority: int
    rank: int

    @property
    def subjects(self) -> list[str]:
        return subjects_of(self)

    @property
    def pauses(self) -> tuple[tuple[str, str], ...]:
        return ("queue", self.queue), ("kind", self.kind), ("service", self.service)


@dataclass(slots=True)
class Capacity:
    """How many more jobs may be admitted. A subject or service that is missing is unlimited."""

    slots: dict[str, int] = field(default_factory=dict)
    """Free slots by subject."""
    services: dict[str, int] = field(default_factory=dict)
    """By restricted service: what a claim could take now, less what was admitted already."""
    paused: frozenset[tuple[str, str]] = frozenset()
    new: frozenset[str] = frozenset()
    """Limits that have not counted the jobs admitted earlier: they have no free slot."""

    def blocking_gate(self, job: Candidate) -> str | None:
        """Return the gate that blocks this job, or None if the job may be admitted."""
        for what, name in job.pauses:
            if (what, name) in self.paused:
                return f"{GATE}pause/{what}/{name}"
        if self.services.get(job.service, 1) <= 0:
            return f"{GATE}service/{job.service}"
        full = (subject for subject in job.subjects if self.slots.get(subject, 1) <= 0)
        subject = next(full, None)
        return None if subject is None else GATE + subject

    def take(self, job: Candidate) -> bool:
        """Return whether the job takes a slot. It takes none if no limit applies to it any more."""
        limited = [subject for subject in job.subjects if subject in self.slots]
        for subject in limited:
            self.slots[subject] -= 1
        if job.service in self.services:
            self.services[job.service] -= 1
        return bool(limited)


@dataclass(frozen=True, slots=True)
class Admission:
    """`admitted` maps a job to whether it takes a slot, `moved` to the other gate that blocks it."""

    admitted: Mapping[str, bool]
    moved: Mapping[str, str]


def admit_candidates(candidates: Iterable[Candidate], capacity: Capacity) -> Admission:
    """Admit by priority and rank, whatever the gate. A job needs capacity everywhere, or waits where there is none."""
    admitted: dict[str, bool] = {}
    moved: dict[str, str] = {}
    for job in sorted(candidates, key=lambda one: (one.priority, one.rank, one.id)):
        gate = capacity.blocking_gate(job)
        if gate is None:
            admitted[job.id] = capacity.take(job)
        elif gate != job.gate:
            moved[job.id] = gate
    return Admission(admitted, moved)


def find_limits(subjects: Iterable[str], found: Mapping[str, int]) -> dict[str, int]:
    """Return the limit of each subject that has one. An owner without a limit has the limit of `*`, and every sender of
    deliveries has the same one."""
    defaults = {"owner": found.get(f"owner/{EVERY_OWNER}"), "sender": MOST_OF_SENDER}
    limits = {}
    for subject in subjects:
        most = found.get(subject, defaults.get(subject.partition("/")[0]))
        if most is not None:
            limits[subject] = most
    return limits


@dataclass(frozen=True, slots=True)
class AdmitResult:
    """`again_in` is in how many microseconds to check again; `failed` are the rows of jobs that failed because their
    owner's budget is exhausted."""

    again_in: int | None
    failed: Sequence[Record] = ()


class LimitOperations:
    def __init__(self, services: ServiceOperations) -> None:
        self.budgets = BudgetOperations()
        self.book: Callable[[], LimitBook] = LimitBook
        self._services = services
        self._announced = self._announcing = NO_LIMITS
        self._announced_at = 0
        self._since = 0
        self._after = GATE
        self._freed_gates: deque[str] = deque(maxlen=REMEMBERED)

    def applies_to(self, job: NewJob) -> bool:
        return self.book().concerns(job)

    def find_spending(self, session: Session, owner: str) -> SpendingRecord | None:
        return self.budgets.find_spending(session, owner, self.book().budget_of(owner))

    def list_spending(self, session: Session) -> list[SpendingRecord]:
        return self.budgets.list_spending(session)

    # Announcing limits

    @property
    def has_news(self) -> bool:
        """Whether this process has other limits than it announced, or does not know whether that was committed."""
        book = self.book()
        return self._announcing is not self._announced or (book is not self._announced and book != self._announced)

    def announce(self, session: Session) -> None:
        """Store the limits of this process when they changed, and once a minute. The caller confirms with
        `confirm_announced` after the commit."""
        book = self.book()
        if book != self._announcing:
            self._since = session.moment()
        elif not self.has_news and 0 <= session.moment() - self._announced_at < ANNOUNCED_EVERY:
            return
        if limits := [_limit_values(limit) for limit in book]:
            session.rows("limits_write", limits=to_json(limits), since=self._since, now=session.moment())
        # Also without limits: those that no process announces any more would stay for ever.
        before = {limit.subject for previous in (self._announced, self._announcing) for limit in previous}
        gone = sorted(before - {limit.subject for limit in book})
        session.rows("limits_forget", gone=to_json(gone), now=session.moment(), kept=LIMITS_KEPT)
        self._announcing, self._announced_at = book, session.moment()

    def confirm_announced(self) -> None:
        """Note that the announcement was committed."""
        self._announced = self._announcing

    # Admitting jobs

    def note_settled(self, settled: Iterable[Lease]) -> None:
        """Check the limits of these jobs first in the next `admit`: their slots are free."""
        if self._announced != NO_LIMITS:
            found = {(lease.kind, lease.owner, _sender(lease)) for lease in settled}
            self._freed_gates.extend(
                f"{GATE}{what}/{name}"
                for kind, owner, sender in found
                for what, name in (("kind", kind), ("owner", owner), ("sender", sender))
                if name
            )

    def admit(self, session: Session) -> AdmitResult:
        """Admit the retries that are within budget, then the jobs that get a slot under each of their limits."""
        (row,) = session.rows("limits_lock")
        if not row["is_alone"]:
            return AdmitResult(CHECK_AGAIN)
        failed = self.budgets.admit(session)
        again_in = self._fill_slots(session)
        return AdmitResult(CHECK_AGAIN if self.budgets.has_more else again_in, failed)

    def _fill_slots(self, session: Session) -> int | None:
        """Return in how many microseconds to check again."""
        new = self._count_earlier_jobs(session)
        if new is None:
            return CHECK_AGAIN
        self._block(session, session.rows("limits_blocked", now=session.moment(), limit=SWEPT_AT_ONCE))
        gates, has_more = self._next_gates(session)
        for _ in range(PASSES):
            if not self._admit_once(session, gates, new):
                return CHECK_AGAIN if new else CHECK_MORE_GATES if has_more else None
        return CHECK_AGAIN

    def _next_gates(self, session: Session) -> tuple[list[str], bool]:
        """Return the gates that may have a free slot and the next of all gates; and whether there are more."""
        hinted = [self._freed_gates.popleft() for _ in range(min(GATES, len(self._freed_gates)))]
        rows = session.rows("gates", after=self._after, until=END, limit=GATES)
        has_more = len(rows) == GATES or self._after != GATE
        self._after = rows[-1]["gate"] if len(rows) == GATES else GATE
        return list(dict.fromkeys([*hinted, *(row["gate"] for row in rows)])), has_more

    def _admit_once(self, session: Session, gates: Sequence[str], new: frozenset[str]) -> bool:
        """Return whether any job was admitted or moved: then others may follow."""
        rows = session.rows("claim_paused", now=session.moment())
        capacity = Capacity(paused=frozenset((row["what"], row["name"]) for row in rows), new=new)
        subjects = [gate.removeprefix(GATE) for gate in gates]
        services = {one.removeprefix("service/") for one in subjects if one.startswith("service/")}
        self._count_slots(session, capacity, [one for one in subjects if one.startswith(COUNTED)])
        self._ask_services(session, capacity, services)
        open_gates = [gate for gate in gates if _has_capacity(gate, capacity)]
        if not open_gates:
            return False
        each = max(FEWEST, MOST // len(open_gates))
        found = session.rows("limits_first", gates=to_json(open_gates), each=each)
        candidates = [Candidate(**row) for row in found]
        others = sorted({subject for job in candidates for subject in job.subjects} - {*subjects})
        self._count_slots(session, capacity, others)
        services = {job.service for job in candidates if job.service} - set(capacity.services)
        self._ask_services(session, capacity, services)
        decided = admit_candidates(candidates, capacity)
        self._write(session, decided)
        return bool(decided.admitted or decided.moved)

    def _count_slots(self, session: Session, capacity: Capacity, subjects: Sequence[str]) -> None:
        if not subjects:
            return
        rows = self._load_limits(session, subjects)
        limits = find_limits(subjects, {row["gate"]: 0 if row["gate"] in capacity.new else row["most"] for row in rows})
        taken = self._count_taken(session, limits)
        capacity.slots |= {subject: most - taken[subject] for subject, most in limits.items()}

    def _count_taken(self, session: Session, subjects: Iterable[str]) -> dict[str, int]:
        parts = [(subject, *subject.split("/", 1)) for subject in subjects]
        if not parts:
            return {}
        asked = to_json([{"subject": subject, "what": what, "name": name} for subject, what, name in parts])
        rows = session.rows("limits_taken", subjects=asked)
        return {row["subject"]: row["number"] for row in rows}

    def _ask_services(self, session: Session, capacity: Capacity, names: set[str]) -> None:
        """Add how many jobs of the restricted ones among these services could be claimed now."""
        if not names:
            return
        allowed = self._services.count_claimable(session, names, MOST)
        taken = self._count_taken(session, [f"service/{name}" for name in allowed])
        capacity.services |= {name: number - taken[f"service/{name}"] for name, number in allowed.items()}

    def _write(self, session: Session, decided: Admission) -> None:
        if decided.moved:
            moved = [{"id": id_, "gate": gate} for id_, gate in decided.moved.items()]
            session.rows("limits_move", jobs=to_json(moved))
        if decided.admitted:
            step = TABLE[Move.PROMOTE, State.WAITING]
            jobs = [{"id": id_, "is_limited": is_limited} for id_, is_limited in decided.admitted.items()]
            rows = session.rows("limits_admit", jobs=to_json(jobs), queued=step.target.value, now=session.moment())
            session.rows(
                "events_of_many", jobs=to_json(rows), event=step.event, code=None, data="{}", now=session.moment()
            )

    # New limits

    def _count_earlier_jobs(self, session: Session) -> frozenset[str] | None:
        """Let new limits count the jobs admitted before them. Return those that have not; None: too many to list."""
        new = self._list_new(session)
        counted = set[str]()
        for gate in new:
            what, name = gate.split("/", 1)
            if not self._block_queued(session, what, name):
                break
            # After the queued ones: a job that was being claimed meanwhile is running now.
            session.rows("limits_count_in", what=what, name=name)
            session.rows("limits_swept", gate=gate)
            counted.add(gate)
        return None if len(new) == GATES else frozenset(new) - counted

    def _list_new(self, session: Session) -> list[str]:
        return [row["gate"] for row in session.rows("limits_unswept", limit=GATES)]

    def without_new_limits(self, session: Session, claim: Claim) -> Claim:
        """Return the part of a claim that no new limit applies to: any other job may be one too many. While the limit
        of an owner is new, the claim passes over the jobs of that owner."""
        new = self._list_new(session)
        if len(new) == GATES:
            return replace(claim, kinds=())
        owners = [gate.removeprefix("owner/") for gate in new if gate.startswith("owner/")]
        claim = replace(claim, besides=[EVERY_OWNER] if EVERY_OWNER in owners else owners)
        kinds = [kind for kind in claim.kinds if f"kind/{kind}" not in new]
        if not any(gate.startswith("queue/") for gate in new):
            return replace(claim, kinds=kinds)
        queues = claim.queues
        if queues is None:
            queues = [row["queue"] for row in session.rows("ready_queues")]
        return replace(claim, kinds=kinds, queues=[queue for queue in queues if f"queue/{queue}" not in new])

    def _block_queued(self, session: Session, what: str, name: str) -> bool:
        """Move queued jobs of a new limit back to waiting. Return whether that was all of them."""
        for _ in range(PASSES):
            found = session.rows("limits_sweep", what=what, name=name, limit=SWEPT_AT_ONCE)
            self._block(session, [{"id": one["id"], "gate": None} for one in found])
            if len(found) < SWEPT_AT_ONCE:
                return True
        return False

    def _block(self, session: Session, jobs: Sequence[dict[str, Any]]) -> None:
        if jobs:
            step = TABLE[Move.PARK, State.QUEUED]
            rows = session.rows("limits_block", jobs=to_json(jobs), now=session.moment())
            data = to_json({"waiting_for": "limit"})
            session.rows(
                "events_of_many", jobs=to_json(rows), event=step.event, code=None, data=data, now=session.moment()
            )

    # Reading

    def list_records(self, session: Session, subjects: Sequence[str] | None = None) -> list[LimitRecord]:
        """Return the limits of these subjects, or all stored limits."""
        rows = session.rows("limits_listed") if subjects is None else self._load_limits(session, subjects)
        found = {row["gate"]: row["most"] for row in rows}
        limits = found if subjects is None else find_limits(subjects, found)
        taken = self._count_taken(session, limits)
        parts = [(*subject.split("/", 1), subject, most) for subject, most in limits.items()]
        return [LimitRecord(what=what, name=name, most=most, taken=taken[one]) for what, name, one, most in parts]

    def _load_limits(self, session: Session, subjects: Sequence[str]) -> Rows:
        return session.rows("limits_named", gates=to_json([*subjects, f"owner/{EVERY_OWNER}"]))


def _sender(lease: Lease) -> str | None:
    return sender_of(lease.service) if lease.kind == DELIVER_KIND else None


def _has_capacity(gate: str, capacity: Capacity) -> bool:
    """A gate whose pause, service or limit is gone blocks nothing."""
    what, _, name = gate.removeprefix(GATE).partition("/")
    if what == "pause":
        thing, _, of = name.partition("/")
        return (thing, of) not in capacity.paused
    if what == "service":
        return capacity.services.get(name, 1) > 0
    return capacity.slots.get(f"{what}/{name}", 1) > 0


def _limit_values(limit: Limit) -> dict[str, Any]:
    budget = limit.budget
    return {
        "gate": limit.subject,
        "most": limit.most,
        "per_day": budget and budget.per_day,
        "per_month": budget and budget.per_month,
        "cost": budget and budget.cost_per_month,
        "over": budget and budget.over,
    }
