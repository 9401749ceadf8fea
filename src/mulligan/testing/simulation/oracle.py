"""The oracle: reads the log and the rows after every operation, and knows who may do what.

It asks nobody's memory but its own: what the store answered, what the log says and what stands in the
rows must be one story.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mulligan.clock import microseconds
from mulligan.errors import IllegalMove
from mulligan.failure.decision import Fail, Release, Retry, Snooze, Succeed
from mulligan.job import MAX_LOSSES, Fence, NewJob
from mulligan.lifecycle import Move
from mulligan.store.protocols import Outcome, Settled
from mulligan.testing.simulation.books import BY_ABORT, Book, WrongBook
from mulligan.testing.simulation.gateway import ServiceWatch
from mulligan.testing.simulation.lives import LEGAL, WRITTEN_BY, Life, Lives
from mulligan.testing.simulation.office import COLUMNS, Broken, Call, Entry
from mulligan.testing.simulation.redrives import RedriveWatch
from mulligan.testing.simulation.timeline import SECOND

if TYPE_CHECKING:
    from mulligan.testing.simulation.party import Process
    from mulligan.testing.simulation.world import World

SETTLES: dict[str, str] = {
    "Succeed": "job.succeeded",
    "Retry": "job.retried",
    "Snooze": "job.snoozed",
    "Release": "job.released",
    "Fail": "job.failed",
    "Cancel": "job.cancelled",
}
MOVES = {
    Move.RETRY_BY_HAND: ("job.retry_requested",),
    Move.RUN_NOW: ("job.run_requested",),
    Move.CANCEL_BY_HAND: ("job.cancelled", "job.cancel_requested"),
    Move.SNOOZE_BY_HAND: ("job.snoozed",),
}


BATCH_POINTS = {
    "batch.published": "a batch is published",
    "batch.aborted": "a batch is aborted",
    "batch.reopened": "a batch is opened again",
    "batch.expired": "a batch expires",
}


class Oracle:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._reached = world.reached.note
        self.lives = Lives()
        self.redrives = RedriveWatch(world.reached.note, self._follow)
        self.books: dict[str, Book] = {}
        self._is_first = False
        self._position = 0
        self._services = ServiceWatch(world.reached.note, world.office.store)
        self._requests: dict[str, None] = {}
        self._begun: dict[tuple[str, int], None] = {}
        self.bodies: dict[tuple[str, int], Process] = {}
        self._looks: dict[str, Callable[[Call, list[Entry]], None]] = {
            "enqueue": self._enqueue,
            "claim": self._claim,
            "promote": self._promote,
            "adopt": self._adopt,
            "beat": self._beat,
            "settle": self._settle,
            "expire": self._expire,
            "move": self._move,
            "now": self._now,
            "overdue": self._overdue,
            "begin_redrive": self.redrives.begun,
            "advance_redrive": self.redrives.advanced,
            "cancel_redrive": self.redrives.cancelled,
            "create_batch": self._create_batch,
            "publish": self._publish,
            "tend_batches": self._tend_batches,
        }

    # After every operation

    def look(self, call: Call) -> None:
        """Compare what was asked, what was answered, what the log says and what the rows hold."""
        try:
            self._look(call)
        except Broken as broken:
            self._world.break_promise(f"{call.party.name} {call.name}: {broken}")
        except Exception as error:
            # The log tells what cannot be followed at all.
            self._world.break_promise(f"{call.party.name} {call.name}: no story can be made of this: {error!r}")

    def _look(self, call: Call) -> None:
        entries = self._world.office.store.log(self._position)
        if entries:
            self._position = entries[-1].position
        if call.name == "claim" or call.name == "beat":
            self._introduce(call)
        if call.error is not None and call.name != "move":
            self._require(not entries, f"failed with {call.error!r} and wrote to the log all the same")
            raise Broken(f"failed with {call.error!r}")
        for entry in entries:
            self._require(entry.at == call.now, f"{entry.type} is dated {entry.at}, the store's clock says {call.now}")
        look = self._looks.get(call.name)
        jobs = [
            entry
            for entry in entries
            if not entry.type.startswith(("batch.", "service.")) and entry.data.get("reason") != BY_ABORT
        ]
        # Told before what it brings: its members pass the door.
        published = [entry for entry in entries if entry.type == "batch.published"]
        self._is_first = bool(published)
        for entry in published:
            self._told_of_batch(call, entry)
        if look is None:
            self._require(not entries, "wrote to the log")
        else:
            look(call, jobs)
        self._batches(call, entries)
        self._services.look(call, entries)
        entries = [entry for entry in entries if entry.job]
        if entries:
            for entry in entries:
                self._tell(call, entry)
            for job in dict.fromkeys(entry.job for entry in entries if entry.job):
                self._compare(self.lives.by_id[job], self._world.office.store.row(job))
            self._world.wake(call.party)

    # Batches

    def _create_batch(self, call: Call, entries: list[Entry]) -> None:
        self._require(not entries, "wrote to the log")
        self.books.setdefault(call.asked.id, Book(call.asked.id))

    def _publish(self, call: Call, entries: list[Entry]) -> None:
        self._promote(call, entries)
        if not self._is_first:
            self._reached("a batch is published twice")

    def _tend_batches(self, call: Call, entries: list[Entry]) -> None:
        self._require(not entries, f"{call.name} wrote of jobs")

    def is_draft(self, life: Life) -> bool:
        return life.batch is not None and self.books[life.batch].state == "draft"

    def _batches(self, call: Call, entries: list[Entry]) -> None:
        """What the log says of batches and of members that an abort cancelled; then a recount of all it touched."""
        told = [entry for entry in entries if entry.type.startswith("batch.")]
        swept = [entry for entry in entries if entry.job and entry.data.get("reason") == BY_ABORT]
        touched = {self.lives.by_id[entry.job].batch for entry in entries if entry.job}
        try:
            # An abort is told before what it brings, the settling after that.
            for entry in [each for each in told if each.type not in ("batch.published", "batch.settled")]:
                self._told_of_batch(call, entry)
            for entry in swept:
                life = self._follow(call, entry)
                is_aborted = life.batch is not None and self.books[life.batch].is_aborted
                self._require(is_aborted, f"{life.name} was swept, and its batch is not aborted")
            for entry in [each for each in told if each.type == "batch.settled"]:
                self._told_of_batch(call, entry)
            for batch in {*touched, *(entry.data["batch"] for entry in told)} - {None}:
                self.books[batch].compare(self._world.office.store.batch_row(batch))
        except WrongBook as wrong:
            raise Broken(str(wrong)) from None

    def _told_of_batch(self, call: Call, entry: Entry) -> None:
        book = self.books[entry.data["batch"]]
        try:
            book.follow(call, entry)
        except WrongBook as wrong:
            raise Broken(str(wrong)) from None
        self._reached(BATCH_POINTS.get(entry.type, "a batch is settled"))
        if entry.type == "batch.published":
            for life in book.members:
                life.ready_at = self._world.timeline.now

    def _introduce(self, call: Call) -> None:
        incarnation = call.asked.incarnation if call.name == "claim" else call.asked.worker.incarnation
        party: Any = call.party
        if not party.incarnation:
            self._world.by_incarnation[incarnation] = party
            party.incarnation = incarnation
        self._require(party.incarnation == incarnation, "speaks for another")

    def _compare(self, life: Life, row: tuple[Any, ...] | None) -> None:
        expected = life.row()
        if row != expected:
            names = COLUMNS.split(", ")
            wrong = row and {
                name: (is_, should)
                for name, is_, should in zip(names, row, expected, strict=True)
                if is_ != should and not (name == "due_at" and life.state != "waiting")
            }
            self._require(row is not None and not wrong, f"{life.name}: row and log differ (is, should be): {wrong}")

    def compare_all(self) -> None:
        """Every row, also those nobody has touched."""
        rows = self._world.office.store.rows()
        try:
            self._require([row[0] for row in rows] == list(self.lives.by_id), "rows are missing or nobody's")
            for id_, *row in rows:
                self._compare(self.lives.by_id[id_], tuple(row))
        except Broken as broken:
            self._world.break_promise(str(broken))

    def _tell(self, call: Call, entry: Entry) -> None:
        world = self._world
        if world.is_told and not entry.job:
            world.tell(call.party.name, f"{call.name}: {entry.type} {entry.data['name']}")
        elif world.is_told:
            life = self.lives.by_id[entry.job]
            attempt = f" attempt {entry.attempt}" if entry.attempt else ""
            code = f" {entry.code}" if entry.code else ""
            world.tell(call.party.name, f"{call.name}: {life.name} ({life.kind}){attempt} {entry.type[4:]}{code}")

    def _require(self, is_so: bool, otherwise: str) -> None:  # noqa: FBT001
        if not is_so:
            raise Broken(otherwise)

    # Reading the log

    def _follow(self, call: Call, entry: Entry) -> Life:
        """One event: legal where the job stood, and written by an operation that may."""
        life = self.lives.by_id.get(entry.job)
        if life is None:
            raise Broken(f"{entry.type} of a job that was never enqueued")
        target = LEGAL.get(entry.type, {}).get(life.state)
        if target is None:
            raise Broken(f"{life.name}: {entry.type} cannot happen to a job that is {life.state}")
        writers = WRITTEN_BY[entry.type, life.state == "running"]
        self._require(call.name in writers, f"{life.name}: {entry.type} is not for this operation to write")
        attempt = life.attempt + 1 if entry.type == "job.started" else life.attempt
        self._require(entry.attempt == attempt, f"{life.name}: {entry.type} of attempt {entry.attempt}, not {attempt}")
        self.lives.move(life, target)
        life.ready_at = self._world.timeline.now
        if life.is_over:
            life.over_at = entry.at
        life.lost_at = None
        return life

    def _enqueue(self, call: Call, entries: list[Entry]) -> None:
        written = {entry.job: entry for entry in entries}
        for new, job in zip(call.asked, call.answer, strict=True):
            entry = written.pop(new.id, None)
            if entry is None:
                self._known(new.id, job)
                continue
            self._require(entry.type == "job.enqueued" and new.id not in self.lives.by_id, "enqueued twice")
            self._require(job.id == new.id and not job.is_duplicate, "another job was returned")
            self._require(not self._has_twin(new), "a second job holds the key of one that is not over")
            delay = new.delay // timedelta(microseconds=1)
            self.lives.add(
                Life(
                    id=new.id,
                    name=f"job {len(self.lives.by_id) + 1}",
                    kind=new.kind,
                    owner=new.owner,
                    priority=new.priority,
                    rank=call.now if new.submitted_at is None else microseconds(new.submitted_at),
                    max_attempts=new.max_attempts,
                    state="waiting" if delay or new.batch else "queued",
                    batch=new.batch,
                    due=call.now + delay,
                    deadline=None if new.deadline is None else call.now + new.deadline // timedelta(microseconds=1),
                    key=new.dedupe_key,
                    service=new.service,
                    ready_at=self._world.timeline.now,
                )
            )
            if new.batch is not None:
                self.books[new.batch].members.append(self.lives.by_id[new.id])
        self._require(not written, "the log tells of jobs nobody asked for")

    def _has_twin(self, new: NewJob) -> bool:
        lives = self.lives
        return new.dedupe_key is not None and any(
            (life.owner, life.kind, life.key) == (new.owner, new.kind, new.dedupe_key)
            for place in (lives.waiting, lives.queued, lives.running)
            for life in place.values()
        )

    def _known(self, asked: str, job: Any) -> None:
        """No event: it is there already, or its twin is."""
        self._require(job.id in self.lives.by_id, "a job was accepted, and the log does not know it")
        self._require(job.is_duplicate == (job.id != asked), "a twin is not called one")
        if job.id == asked:
            self._reached("an enqueue is repeated")
            return
        self._require(asked not in self.lives.by_id, "a stored job was answered with its twin")
        self._reached("a job is its twin")

    def _claim(self, call: Call, entries: list[Entry]) -> None:
        claim, leases = call.asked, call.answer.leases
        name = (claim.incarnation, claim.number)
        repeated = {Fence(life.id, life.attempt, *name) for life in self.lives.held_by(*name)}
        if repeated:
            self._promote(call, entries)
            self._require({lease.fence for lease in leases} == repeated, "a repeated claim returned other leases")
            self._reached("a claim repeated after a lost reply returns the same leases")
            return
        started = []
        for entry in entries:
            if entry.type == "job.queued":
                self._queued(call, entry)
                continue
            self._found_again(entry.job)
            life = self._follow(call, entry)
            self._require(not life.is_late(call.now), f"{life.name} was begun after its deadline")
            self._require(life.kind in claim.kinds, f"{life.name} ({life.kind}) was given to one who cannot run it")
            self._start(life, call, name)
            started.append(life)
        fences = [Fence(life.id, life.attempt, *name) for life in started]
        self._require({lease.fence for lease in leases} == set(fences), "the answer and the log differ")
        self._require(len(leases) <= claim.limit, "more than was wanted")
        self._in_order(claim, started, call.now)

    def _promote(self, call: Call, entries: list[Entry]) -> None:
        for entry in entries:
            self._require(entry.type == "job.queued", f"{entry.type} is more than opening the door")
            self._queued(call, entry)

    def _queued(self, call: Call, entry: Entry) -> None:
        life = self._follow(call, entry)
        self._require(life.due <= call.now, f"{life.name} passed the door before it was due")
        self._require(not self.is_draft(life), f"{life.name} passed the door, and its batch is a draft")

    def _start(self, life: Life, call: Call, name: tuple[str, int]) -> None:
        life.attempt += 1
        life.holder = name
        life.lease_until = call.now + call.asked.lease // timedelta(microseconds=1)
        life.started_at = self._world.timeline.now

    def _found_again(self, job: str) -> None:
        life = self.lives.by_id.get(job)
        if life is not None and life.lost_at is not None and self._world.promises.found_again(life, life.lost_at):
            self._reached("a lost job is claimed again in time")

    def _in_order(self, claim: Any, started: list[Life], now: int) -> None:
        """By priority, then by rank: nobody who could be taken comes before one who was."""
        # What has a service may have to wait for it.
        free = [life for life in self.lives.queued.values() if life.kind in claim.kinds and not life.service]
        left = [life.order for life in free if not life.is_late(now)]
        if not left:
            return
        self._require(len(started) == claim.limit, "jobs were left behind although there was room")
        self._require(not started or max(life.order for life in started) < min(left), "taken out of turn")

    def _adopt(self, call: Call, entries: list[Entry]) -> None:
        self._require(not entries, "wrote to the log")
        held = {fence.id for fence in call.options["held"]}
        expected = {
            Fence(life.id, life.attempt, *life.holder)
            for life in self.lives.held_by(call.asked)
            if life.holder and life.holder[1] < call.options["before"] and life.id not in held
        }
        self._require({lease.fence for lease in call.answer} == expected, "adopted the wrong leases")
        if expected:
            self._reached("a claim that came late is adopted")

    def _beat(self, call: Call, entries: list[Entry]) -> None:
        self._require(not entries, "wrote to the log")
        lost = []
        for fence in call.asked.extend:
            life = self.lives.by_id[fence.id]
            if not _holds(life, fence):
                lost.append(fence)
                continue
            if life.lease_until is not None and life.lease_until < call.now:
                self._reached("a lease is extended after it expired")
            life.lease_until = call.now + call.asked.lease // timedelta(microseconds=1)
            self._compare(life, self._world.office.store.row(life.id))
        self._require(call.answer.lost == lost, f"told {call.answer.lost} lost, not {lost}")
        if lost:
            self._reached("a keeper hears that a lease is lost")
        wished = {
            Fence(life.id, life.attempt, *life.holder)
            for life in self.lives.held_by(call.asked.worker.incarnation)
            if life.wish_at is not None and life.holder
        }
        self._require(set(call.answer.cancelled) == wished, "told of the wrong wishes to cancel")

    # Settle

    def _settle(self, call: Call, entries: list[Entry]) -> None:
        expected = [self._expected(outcome, call.now) for outcome in call.asked]
        self._require(list(call.answer) == expected, f"answered {call.answer}, not {expected}")
        settles = [entry for entry in entries if entry.type != "job.refused"]
        refusals = [entry for entry in entries if entry.type == "job.refused"]
        accepted = [outcome for outcome, answer in zip(call.asked, expected, strict=True) if answer == "accepted"]
        self._require(len(settles) == len(accepted), "not one event for each outcome that was accepted")
        # Of different jobs, in whatever order the store wrote them.
        written = {(entry.job, entry.attempt): entry for entry in settles}
        for outcome in accepted:
            fence = outcome.lease.fence
            self._settled(call, outcome, written[fence.id, fence.attempt])
        for outcome, answer in zip(call.asked, expected, strict=True):
            self._answered(call, outcome, answer, refusals)
        self._require(not refusals, "a refusal that nobody was told of")

    def _expected(self, outcome: Outcome, now: int) -> Settled:
        fence = outcome.lease.fence
        life = self.lives.by_id[fence.id]
        is_due = outcome.reclaimed_by is None or (life.lease_until or 0) < now
        if _holds(life, fence) and is_due:
            return Settled.ACCEPTED
        if life.settled.get(fence.attempt) == outcome.settled_by:
            return Settled.REPEATED
        if _holds(life, fence) and outcome.reclaimed_by is not None:
            self._reached("a reclaimer's settle meets a lease that was extended")
        return Settled.REFUSED

    def _answered(self, call: Call, outcome: Outcome, answer: Settled, refusals: list[Entry]) -> None:
        fence = outcome.lease.fence
        party: Any = call.party
        if outcome.reclaimed_by is None:
            party.is_rid_of(fence.id, fence.attempt)
        if answer is Settled.REPEATED:
            self._reached("a settle is repeated")
        if answer is not Settled.REFUSED or outcome.reclaimed_by is not None:
            return
        self._reached("a late result is refused")
        life = self.lives.by_id[fence.id]
        request = f"{fence.attempt} {outcome.settled_by}"
        if request in life.refused:
            return
        life.refused[request] = None
        mine = [entry for entry in refusals if (entry.job, entry.attempt) == (fence.id, fence.attempt)]
        self._require(bool(mine), f"{life.name}: a late result was refused without a word in the log")
        refusals.remove(mine[0])

    def _settled(self, call: Call, outcome: Outcome, entry: Entry) -> None:
        fence, decision = outcome.lease.fence, outcome.decision
        life = self.lives.by_id[fence.id]
        type_ = SETTLES[type(decision).__name__]
        if life.wish_at is not None and isinstance(decision, Retry | Snooze | Release):
            type_ = "job.cancelled"
            self._reached("a wish to cancel wins over a retry")
        is_right = (entry.job, entry.attempt, entry.type) == (fence.id, fence.attempt, type_)
        self._require(is_right, f"{life.name}: {entry.type} of attempt {entry.attempt} where {type_} was decided")
        self._require(entry.data.get("by") == outcome.settled_by, "the log says that another settled")
        if outcome.reclaimed_by is not None:
            self._reclaimed(call, life, outcome, entry)
        self._notice(life, outcome, entry)
        self._follow(call, entry)
        life.lost_at = life.lease_until if outcome.reclaimed_by is not None else None
        self._count(life, outcome, call.now)
        life.settled[life.attempt] = outcome.settled_by
        life.holder = life.lease_until = life.wish_at = None

    def _reclaimed(self, call: Call, life: Life, outcome: Outcome, entry: Entry) -> None:
        assert life.holder is not None and life.lease_until is not None
        holder = self._world.by_incarnation[life.holder[0]]
        self._require(holder is not call.party, f"{life.name}: a worker took back its own lease")
        self._require(outcome.reclaimed_by == getattr(call.party, "incarnation", ""), "speaks for another")
        self._require(isinstance(outcome.decision, Release | Fail), "a reclaimer decided on a result it cannot know")
        self._require(not self._is_kept(holder, life), f"{life.name}: {holder.name} is well and kept this lease")
        if entry.type == "job.released":
            self._reached("a lost lease is released")
            if life.kind not in getattr(call.party, "kinds", ()):
                self._reached("a job of an unknown kind is released by a reclaimer")
        elif entry.type == "job.cancelled":
            self._reached("a wish to cancel is carried out by a reclaimer")
        else:
            self._require(life.losses + 1 == MAX_LOSSES, f"{life.name} failed at loss {life.losses + 1}")
            self._reached("a job fails at the limit of losses")

    def _is_kept(self, holder: "Process", life: Life) -> bool:
        """A worker whom nothing befell for a whole lease has extended it: only a clock that stepped says otherwise."""
        known = holder.knows.get((life.id, life.attempt))
        if known is None or holder.is_dead or holder.loop.is_stopped:
            return False
        lease = int(self._world.parameters.lease.total_seconds() * SECOND)
        steady = max(known, holder.troubled_at, self._world.outage_at)
        return self._world.timeline.now - steady > lease

    def _notice(self, life: Life, outcome: Outcome, entry: Entry) -> None:
        """What is worth to have been seen once."""
        ran = self._world.timeline.now - life.started_at
        if isinstance(outcome.decision, Succeed):
            if ran > self._world.parameters.lease.total_seconds() * 1.5 * SECOND:
                self._reached("a job runs long after its first lease would have ended")
            if life.wish_at is not None:
                self._reached("success wins over a wish to cancel")
        points = {
            "TIMEOUT": "a job times out",
            "INVALID_INPUT": "a job fails for good",
            "SNOOZED": "a job is snoozed by its task",
            "DEADLINE": "a retry would come after the deadline",
        }
        if entry.code in points:
            self._reached(points[entry.code])
        if type(outcome.decision).__name__ == "Cancel":
            self._reached("a cancelled attempt stops")
        if outcome.reclaimed_by is None and (life.id, life.attempt) in self.bodies:
            self._reached("a task does not stop when told to")

    def _count(self, life: Life, outcome: Outcome, now: int) -> None:
        decision = outcome.decision
        if isinstance(decision, Retry | Snooze):
            life.due = now + decision.delay // timedelta(microseconds=1)
        if isinstance(decision, Succeed | Retry | Snooze):
            life.losses = life.crashes = 0
        if isinstance(decision, Retry):
            life.failures += 1
            self._require(life.failures < life.max_attempts, f"{life.name} is tried more often than allowed")
        if isinstance(decision, Snooze):
            life.snoozes += 1
        ledger = decision.verdict.ledger if isinstance(decision, Fail) else getattr(decision, "ledger", None)
        if ledger is not None:
            setattr(life, str(ledger), getattr(life, str(ledger)) + 1)
        if outcome.reclaimed_by is not None:
            self._require(ledger == "losses", f"{life.name}: a lost lease was not counted")
        self._require(life.losses <= MAX_LOSSES, f"{life.name} was lost more often than allowed")

    # By hand, by time

    def _expire(self, call: Call, entries: list[Entry]) -> None:
        for entry in entries:
            life = self._follow(call, entry)
            self._require(
                life.is_late(call.now) and entry.code == "DEADLINE", f"{life.name} expired before its deadline"
            )
            self._reached("a deadline passes before a job can run")
        self._require(call.answer == len(entries), "the count of expired jobs is wrong")

    def _move(self, call: Call, entries: list[Entry]) -> None:
        request = call.asked
        if call.error is not None:
            self._require(not entries, "refused, and written to the log all the same")
            self._refusal(call)
            return
        if request.id in self._requests:
            self._require(not entries, "a repeated request changed something")
            self._reached("a move by hand is repeated")
            return
        self._require(bool(entries) and entries[0].request == request.id, "a move left no trace in the log")
        self._requests[request.id] = None
        self._moved(call, entries[0])
        for entry in entries[1:]:
            self._require(entry.type == "job.queued", f"{entry.type} beside a move by hand")
            life = self._follow(call, entry)
            self._require(life.due <= call.now, f"{life.name} passed the door before it was due")

    def _refusal(self, call: Call) -> None:
        self._reached("a move by hand is refused")
        if not isinstance(call.error, IllegalMove):
            return
        life = self.lives.by_id[call.asked.job]
        is_legal = any(life.state in LEGAL[event] for event in MOVES[call.asked.move] if event != "job.snoozed")
        if call.asked.move is Move.SNOOZE_BY_HAND:
            is_legal = life.state in ("waiting", "queued")
        self._require(not is_legal, f"{life.name}: {call.asked.move} was refused though it is {life.state}")

    def _moved(self, call: Call, entry: Entry) -> None:
        request, now = call.asked, call.now
        self._require(entry.type in MOVES[request.move], f"{entry.type} where {request.move} was asked")
        life = self._follow(call, entry)
        match request.move:
            case Move.RETRY_BY_HAND:
                life.start_again(now)
                self._reached("a job is retried by hand")
            case Move.RUN_NOW:
                self._reached("a job is run now by hand")
            case Move.CANCEL_BY_HAND:
                if life.state == "running" and life.wish_at is None:
                    life.wish_at = self._world.timeline.now
                return
            case Move.SNOOZE_BY_HAND:
                life.due = now + request.delay // timedelta(microseconds=1)
                self._reached("a job is snoozed by hand")
                return
        life.due_at_once(now)

    # The reclaimer's looks: first at the clock, then at the leases unless something was wrong

    def _now(self, call: Call, entries: list[Entry]) -> None:
        self._require(not entries, "wrote to the log")
        party: Any = call.party
        if getattr(party, "was_held_back", False):
            self._reached("a quiet beat holds a reclaimer back")
        party.was_held_back = any(
            (life.lease_until or 0) < call.now and (life.holder or ("",))[0] != getattr(party, "incarnation", "")
            for life in self.lives.running.values()
        )

    def _overdue(self, call: Call, entries: list[Entry]) -> None:
        self._require(not entries, "wrote to the log")
        party: Any = call.party
        party.was_held_back = False
        expected = {
            life.id
            for life in self.lives.running.values()
            if (life.lease_until or 0) < call.now and life.holder and life.holder[0] != call.options["besides"]
        }
        self._require({lease.fence.id for lease in call.answer} == expected, "the wrong leases are called overdue")

    # Bodies

    def body_begins(self, process: "Process", job: str, attempt: int) -> None:
        if process.is_dead:
            return
        try:
            self._begins(process, job, attempt)
        except Broken as broken:
            self._world.break_promise(f"{process.name}: {broken}")

    def _begins(self, process: "Process", job: str, attempt: int) -> None:
        life = self.lives.by_id[job]
        self._require((job, attempt) not in self._begun, f"{life.name}: attempt {attempt} runs twice")
        self._begun[job, attempt] = None
        is_current = life.attempt == attempt and life.holder is not None and life.holder[0] == process.incarnation
        self._require(is_current or attempt in life.settled, f"{life.name}: attempt {attempt} runs without a lease")
        for other, number in self.bodies:
            if other != job or number == attempt:
                continue
            # The older one may also be the one that begins: its worker has not heard yet that the lease is lost.
            is_lost = min(number, attempt) in life.settled
            self._require(is_lost, f"{life.name}: attempts {number} and {attempt} run at once")
            self._reached("two attempts of a job overlap after a lost lease")
        self.bodies[job, attempt] = process

    def body_ends(self, process: "Process", job: str, attempt: int) -> None:
        if process.is_dead:
            return
        self.bodies.pop((job, attempt), None)
        process.frees(job, attempt)

    def died(self, process: "Process") -> None:
        """What ran in it runs no more."""
        for body in [body for body, runner in self.bodies.items() if runner is process]:
            del self.bodies[body]

    def left(self, process: "Process") -> None:
        """A worker that drained in peace leaves nothing behind."""
        if self._world.timeline.now - process.steady_since < 60 * SECOND or not process.incarnation:
            return
        left = [
            life.name for life in self.lives.held_by(process.incarnation) if (life.id, life.attempt) in process.knows
        ]
        if left:
            self._world.break_promise(f"{process.name} left in peace and still holds {', '.join(left)}")
        self._reached("a worker drains in peace")


def _holds(life: Life, fence: Fence) -> bool:
    return life.state == "running" and life.attempt == fence.attempt and life.holder == (fence.incarnation, fence.claim)
