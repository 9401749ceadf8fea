"""What a store does about limits, as statements: the same for every store.

The limits are kept in the store, so that they hold for whoever opens the door. Places are counted from the jobs
themselves. One process at a time lets jobs in: it asks for that in one statement, and counts in the next, so its
count sees all that was let in before. Whoever comes meanwhile does not wait, and looks again soon.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Lease, NewJob
from mulligan.records.limit import EVERY_OWNER, Limit, LimitBook, LimitRecord, SpendingRecord
from mulligan.store.admission import GATE, Admission, Candidate, Rooms, admission, limits_for, subjects_of
from mulligan.store.budgets import BudgetOperations
from mulligan.store.messages import Claim
from mulligan.store.rows import Record, to_duration, to_json
from mulligan.store.script import Rows
from mulligan.store.services import ServiceOperations
from mulligan.store.session import Now, Session

# After the last gate there can be.
END = "limit0"
# How often a process says again which limits it has, and how long they hold when nobody does.
SAID_AGAIN = to_duration(timedelta(minutes=1))
KEPT = to_duration(timedelta(minutes=10))
# In a claim: gates looked at, jobs considered at once, and how often.
GATES = 50
FEWEST, MOST = 20, 1_000
PASSES = 10
SWEPT_AT_ONCE = 1_000
# When another was letting jobs in, or there are more gates than were looked at: microseconds until the next look.
AGAIN = 10_000
ROUND = 100_000
# Gates that may have a place since somebody was settled here.
REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Admitted:
    """`again_in` is in how many microseconds it is worth to look again; `failed` are the rows of those beyond their
    owner's budget."""

    again_in: int | None
    failed: Sequence[Record] = ()


class LimitOperations:
    def __init__(self, services: ServiceOperations) -> None:
        self.budgets = BudgetOperations()
        self.book: Callable[[], LimitBook] = LimitBook
        self._services = services
        self._said = self._saying = LimitBook()
        self._said_at = 0
        self._since = 0
        self._after = GATE
        self._freed: deque[str] = deque(maxlen=REMEMBERED)

    def concerns(self, job: NewJob) -> bool:
        return self.book().concerns(job)

    def spending(self, session: Session, owner: str, now: Now) -> SpendingRecord | None:
        return self.budgets.record(session, owner, now, self.book().budget_of(owner))

    # Which limits there are

    @property
    def has_news(self) -> bool:
        """Whether this process has other limits than it told, or does not know whether it was heard."""
        book = self.book()
        return self._saying is not self._said or (book is not self._said and book != self._said)

    def announce(self, session: Session, now: int) -> None:
        """Tell the others which limits this process has: when they changed, and once a minute. It is told once what was
        written is committed: see `announced`."""
        book = self.book()
        if book != self._saying:
            self._since = now
        elif not self.has_news and 0 <= now - self._said_at < SAID_AGAIN:
            return
        if limits := [_limit_values(limit) for limit in book]:
            session.rows("limits_write", limits=to_json(limits), since=self._since, now=now)
        # Also who has no limits: those that nobody says any more would stay for ever.
        before = {limit.subject for told in (self._said, self._saying) for limit in told}
        gone = sorted(before - {limit.subject for limit in book})
        session.rows("limits_forget", gone=to_json(gone), now=now, kept=KEPT)
        self._saying, self._said_at = book, now

    def announced(self) -> None:
        """What was announced is committed."""
        self._said = self._saying

    # The door

    def freed(self, settled: Iterable[Lease]) -> None:
        """These were settled: their limits are looked at first."""
        if self._said:
            found = {(lease.kind, lease.owner) for lease in settled}
            self._freed.extend(gate for kind, owner in found for gate in (f"{GATE}kind/{kind}", f"{GATE}owner/{owner}"))

    def admit(self, session: Session, now: int) -> Admitted:
        """Let in the retries that are in budget, and whoever has a place everywhere."""
        (row,) = session.rows("limits_alone")
        if not row["is_alone"]:
            return Admitted(AGAIN)
        failed = self.budgets.admit(session, now)
        again_in = self._give_places(session, now)
        return Admitted(AGAIN if self.budgets.has_more else again_in, failed)

    def _give_places(self, session: Session, now: int) -> int | None:
        """In how many microseconds it is worth to look again."""
        new = self._sweep(session, now)
        if new is None:
            return AGAIN
        self._give_back(session, now)
        gates, is_cut = self._gates(session)
        for _ in range(PASSES):
            if not self._pass(session, gates, new, now):
                return AGAIN if new else ROUND if is_cut else None
        return AGAIN

    def _gates(self, session: Session) -> tuple[list[str], bool]:
        """Those that may have a place, and the next ones of all; whether there are more."""
        hinted = [self._freed.popleft() for _ in range(min(GATES, len(self._freed)))]
        rows = session.rows("gates_parked", after=self._after, until=END, limit=GATES)
        is_cut = len(rows) == GATES or self._after != GATE
        self._after = rows[-1]["gate"] if len(rows) == GATES else GATE
        return list(dict.fromkeys([*hinted, *(row["gate"] for row in rows)])), is_cut

    def _pass(self, session: Session, gates: Sequence[str], new: frozenset[str], now: int) -> bool:
        """Whether anybody was moved: then others may come next."""
        rooms = Rooms(new=new)
        rows = session.rows("claim_paused", now=now)
        rooms.paused = frozenset((row["what"], row["name"]) for row in rows)
        subjects = [gate.removeprefix(GATE) for gate in gates]
        self._count(session, rooms, [one for one in subjects if one.startswith(("kind/", "queue/", "owner/"))])
        self._ask(session, rooms, {one.removeprefix("service/") for one in subjects if one.startswith("service/")}, now)
        open_gates = [gate for gate in gates if _has_room(gate, rooms)]
        if not open_gates:
            return False
        each = max(FEWEST, MOST // len(open_gates))
        found = session.rows("limits_first", gates=to_json(open_gates), each=each)
        candidates = [Candidate(**row) for row in found]
        self._count(session, rooms, [one for one in subjects_of(candidates) if one not in subjects])
        self._ask(session, rooms, {job.service for job in candidates if job.service} - set(rooms.services), now)
        decided = admission(candidates, rooms)
        self._write(session, decided, now)
        return bool(decided.admitted or decided.moved)

    def _count(self, session: Session, rooms: Rooms, subjects: Sequence[str]) -> None:
        if not subjects:
            return
        asked = to_json([*subjects, f"owner/{EVERY_OWNER}"])
        rows = session.rows("limits_named", gates=asked)
        limits = limits_for(subjects, {row["gate"]: 0 if row["gate"] in rooms.new else row["most"] for row in rows})
        taken = self._taken(session, limits)
        rooms.places |= {subject: most - taken[subject] for subject, most in limits.items()}

    def _taken(self, session: Session, subjects: Iterable[str]) -> dict[str, int]:
        parts = [(subject, *subject.split("/", 1)) for subject in subjects]
        if not parts:
            return {}
        asked = to_json([{"subject": subject, "what": what, "name": name} for subject, what, name in parts])
        rows = session.rows("limits_taken", subjects=asked)
        return {row["subject"]: row["number"] for row in rows}

    def _ask(self, session: Session, rooms: Rooms, names: set[str], now: int) -> None:
        """What of these services could be claimed now, if it is not all."""
        if not names:
            return
        allowed = self._services.barred(session, names, MOST, now)
        taken = self._taken(session, [f"service/{name}" for name in allowed])
        rooms.services |= {name: number - taken[f"service/{name}"] for name, number in allowed.items()}

    def _write(self, session: Session, decided: Admission, now: int) -> None:
        if decided.moved:
            moved = [{"id": id_, "gate": gate} for id_, gate in decided.moved.items()]
            session.rows("limits_move", jobs=to_json(moved))
        if decided.admitted:
            step = TABLE[Move.PROMOTE, State.WAITING]
            jobs = [{"id": id_, "is_limited": is_limited} for id_, is_limited in decided.admitted.items()]
            rows = session.rows("limits_admit", jobs=to_json(jobs), queued=step.target.value, now=now)
            session.rows("events_of_many", jobs=to_json(rows), event=step.event, code=None, data="{}", now=now)

    # Jobs that hold a place and should not, or hold none and should

    def _give_back(self, session: Session, now: int) -> None:
        rows = session.rows("limits_blocked", now=now, limit=SWEPT_AT_ONCE)
        self._park(session, rows, now)

    def _sweep(self, session: Session, now: int) -> frozenset[str] | None:
        """Limits that are new count those that were let in before. Those that do not yet; None: too many to name."""
        new = self._new(session)
        swept = set[str]()
        for gate in new:
            what, name = gate.split("/", 1)
            if not self._take_back(session, what, name, now):
                break
            # After those that were queued: who was being claimed meanwhile runs now.
            session.rows("limits_count_in", what=what, name=name)
            session.rows("limits_swept", gate=gate)
            swept.add(gate)
        return None if len(new) == GATES else frozenset(new) - swept

    def _new(self, session: Session) -> list[str]:
        """The first limits that do not count yet who came before them."""
        rows = session.rows("limits_unswept", limit=GATES)
        return [row["gate"] for row in rows]

    def without_new_limits(self, session: Session, claim: Claim) -> Claim:
        """What of a claim no new limit is about: of all else, whatever is taken may be one too many. Lanes have no
        owners: while the limit of one is new, that is nothing."""
        new = self._new(session)
        if len(new) == GATES or any(gate.startswith("owner/") for gate in new):
            return replace(claim, kinds=())
        kinds = [kind for kind in claim.kinds if f"kind/{kind}" not in new]
        if not any(gate.startswith("queue/") for gate in new):
            return replace(claim, kinds=kinds)
        queues = claim.queues
        if queues is None:
            queues = [row["queue"] for row in session.rows("ready_queues")]
        return replace(claim, kinds=kinds, queues=[queue for queue in queues if f"queue/{queue}" not in new])

    def _take_back(self, session: Session, what: str, name: str, now: int) -> bool:
        for _ in range(PASSES):
            found = session.rows("limits_sweep", what=what, name=name, limit=SWEPT_AT_ONCE)
            self._park(session, [{"id": one["id"], "gate": None} for one in found], now)
            if len(found) < SWEPT_AT_ONCE:
                return True
        return False

    def _park(self, session: Session, jobs: Sequence[dict[str, Any]], now: int) -> None:
        if jobs:
            step = TABLE[Move.PARK, State.QUEUED]
            rows = session.rows("limits_park", jobs=to_json(jobs), now=now)
            data = to_json({"waiting_for": "limit"})
            session.rows("events_of_many", jobs=to_json(rows), event=step.event, code=None, data=data, now=now)

    # For people

    def records(self, session: Session, subjects: Sequence[str] | None = None) -> list[LimitRecord]:
        """The limits of these subjects; of all that are named, without any."""
        rows = session.rows("limits_listed") if subjects is None else self._named(session, subjects)
        found = {row["gate"]: row["most"] for row in rows}
        limits = found if subjects is None else limits_for(subjects, found)
        taken = self._taken(session, limits)
        parts = [(*subject.split("/", 1), subject, most) for subject, most in limits.items()]
        return [LimitRecord(what=what, name=name, most=most, taken=taken[one]) for what, name, one, most in parts]

    def _named(self, session: Session, subjects: Sequence[str]) -> Rows:
        return session.rows("limits_named", gates=to_json([*subjects, f"owner/{EVERY_OWNER}"]))


def _has_room(gate: str, rooms: Rooms) -> bool:
    """A gate of which nothing is known any more lets all pass."""
    what, _, name = gate.removeprefix(GATE).partition("/")
    if what == "pause":
        thing, _, of = name.partition("/")
        return (thing, of) not in rooms.paused
    if what == "service":
        return rooms.services.get(name, 1) > 0
    return rooms.places.get(f"{what}/{name}", 1) > 0


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
