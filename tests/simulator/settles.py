"""The oracle checks settles: only the newest claim settles, once, and the decision is what is written."""

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mulligan.failure.decision import Cancel, Fail, Park, Postpone, Release, Retry, Succeed
from mulligan.records.job import MAX_LOSSES
from mulligan.service.records import PROBE_KIND
from mulligan.store.messages import Outcome, Settled
from mulligan.values.moment import microseconds
from simulator.broken import Broken, require
from simulator.executions import Executions
from simulator.gateway import ServiceWatch
from simulator.leases import LeaseWatch
from simulator.lives import Life
from simulator.server import Call, Entry
from simulator.timeline import SECOND
from simulator.transitions import Transitions

if TYPE_CHECKING:
    from simulator.world import World

EVENTS: dict[str, str] = {
    "Succeed": "job.succeeded",
    "Retry": "job.retried",
    "Postpone": "job.snoozed",
    "Park": "job.parked",
    "Release": "job.released",
    "Fail": "job.failed",
    "Cancel": "job.cancelled",
}
POINTS = {
    "TIMEOUT": "a job times out",
    "INVALID_INPUT": "a job fails for good",
    "SNOOZED": "a job is snoozed by its task",
    "DEADLINE": "a retry would come after the deadline",
}


class SettleWatch:
    def __init__(
        self,
        world: "World",
        transitions: Transitions,
        leases: LeaseWatch,
        executions: Executions,
        services: ServiceWatch,
    ) -> None:
        self._world = world
        self._reached = world.reached.note
        self._transitions = transitions
        self._lives = transitions.lives
        self._leases = leases
        self._executions = executions
        self._services = services

    def settled(self, call: Call, entries: list[Entry]) -> None:
        expected = [self._expected(outcome, call.now) for outcome in call.asked]
        require(list(call.answer) == expected, f"answered {call.answer}, not {expected}")
        settles = [entry for entry in entries if entry.type != "job.refused"]
        refusals = [entry for entry in entries if entry.type == "job.refused"]
        accepted = [outcome for outcome, answer in zip(call.asked, expected, strict=True) if answer == "accepted"]
        require(len(settles) == len(accepted), "not one event for each outcome that was accepted")
        # Of different jobs, in whatever order the store wrote them.
        written = {(entry.job, entry.attempt): entry for entry in settles}
        for outcome in accepted:
            fence = outcome.lease.fence
            self._accepted(call, outcome, written[fence.id, fence.attempt])
        for outcome, answer in zip(call.asked, expected, strict=True):
            self._answered(call, outcome, answer, refusals)
        require(not refusals, "a refusal that was not reported")

    def _expected(self, outcome: Outcome, now: int) -> Settled:
        fence = outcome.lease.fence
        life = self._lives.known(fence.id)
        is_due = outcome.reclaimed_by is None or _may_be_taken(life, outcome, now)
        if life.is_held_by(fence) and is_due:
            return Settled.ACCEPTED
        if life.settled.get(fence.attempt) == outcome.settled_by and fence.id not in self._lives.deleted:
            return Settled.REPEATED
        if life.is_held_by(fence) and outcome.reclaimed_by is not None:
            self._reached("a reclaimer's settle meets a lease that was extended")
        return Settled.REFUSED

    def _answered(self, call: Call, outcome: Outcome, answer: Settled, refusals: list[Entry]) -> None:
        fence = outcome.lease.fence
        participant: Any = call.participant
        if outcome.reclaimed_by is None:
            participant.is_rid_of(fence.id, fence.attempt)
        if answer is Settled.REPEATED:
            self._reached("a settle is repeated")
        if answer is not Settled.REFUSED or outcome.reclaimed_by is not None:
            return
        self._reached("a late result is refused")
        life = self._lives.known(fence.id)
        request = f"{fence.attempt} {outcome.settled_by}"
        if request in life.refused or fence.id in self._lives.deleted:
            return
        life.refused[request] = None
        mine = [entry for entry in refusals if (entry.job, entry.attempt) == (fence.id, fence.attempt)]
        require(bool(mine), f"{life.name}: a late result was refused without a word in the log")
        refusals.remove(mine[0])

    def _accepted(self, call: Call, outcome: Outcome, entry: Entry) -> None:
        fence = outcome.lease.fence
        life = self._lives.by_id[fence.id]
        outcome = self._charged(life, outcome)
        decision = outcome.decision
        type_ = EVENTS[type(decision).__name__]
        if life.wish_at is not None and isinstance(decision, Retry | Postpone | Park | Release):
            type_ = "job.cancelled"
            self._reached("a wish to cancel wins over a retry")
        is_right = (entry.job, entry.attempt, entry.type) == (fence.id, fence.attempt, type_)
        require(is_right, f"{life.name}: {entry.type} of attempt {entry.attempt} where {type_} was decided")
        require(entry.data.get("by") == outcome.settled_by, "the log says that another settled")
        if outcome.stuck_after is not None:
            self._unstuck(call, outcome)
        elif outcome.reclaimed_by is not None:
            self._reclaimed(call, life, outcome, entry)
        self._notice(life, outcome, entry)
        self._transitions.follow(call, entry)
        is_lost = outcome.reclaimed_by is not None and outcome.stuck_after is None
        life.lost_at = life.lease_until if is_lost else None
        _count(life, outcome, call.now)
        life.settled[life.attempt] = outcome.settled_by
        life.holder = life.lease_until = life.wish_at = None

    def _charged(self, life: Life, outcome: Outcome) -> Outcome:
        """An outage costs no job an attempt: what it did to a call is borne by the service."""
        if not self._services.bears(outcome, returns=life.returns + 1):
            return outcome
        spared: Park | None = getattr(outcome.decision, "spared", None)
        if spared is None:
            raise Broken(f"{life.name} was to bear a failure of its service")
        self._reached("a service bears the failure of a call")
        return outcome._replace(decision=replace(spared, is_held=not self._services.is_closed))

    def _reclaimed(self, call: Call, life: Life, outcome: Outcome, entry: Entry) -> None:
        assert life.holder is not None and life.lease_until is not None
        holder = self._world.by_incarnation[life.holder[0]]
        require(holder is not call.participant, f"{life.name}: a worker took back its own lease")
        require(outcome.reclaimed_by == getattr(call.participant, "incarnation", ""), "speaks for another")
        require(isinstance(outcome.decision, Release | Fail), "a reclaimer decided on a result it cannot know")
        require(not self._leases.is_kept(holder, life), f"{life.name}: {holder.name} is well and kept this lease")
        if entry.type == "job.released":
            # Beyond the limit it was run manually, and fails again.
            require(life.losses + 1 < MAX_LOSSES, f"{life.name} is released at loss {life.losses + 1}")
            self._reached("a lost lease is released")
            if life.kind not in getattr(call.participant, "kinds", ()):
                self._reached("a job of an unknown kind is released by a reclaimer")
        elif entry.type == "job.cancelled":
            self._reached("a wish to cancel is carried out by a reclaimer")
        else:
            require(life.losses + 1 >= MAX_LOSSES, f"{life.name} failed at loss {life.losses + 1}")
            self._reached("a job fails at the limit of losses")

    def _unstuck(self, call: Call, outcome: Outcome) -> None:
        require(outcome.reclaimed_by == getattr(call.participant, "incarnation", ""), "speaks for another")
        is_put_back = isinstance(outcome.decision, Release)
        require(not isinstance(outcome.decision, Succeed | Cancel), "a result was made up for an attempt that is stuck")
        require(is_put_back <= (self._world.parameters.stuck == "requeue"), "a stuck job was put back uncounted")
        self._reached("a stuck job is put back" if is_put_back else "a stuck job is settled as timed out")

    def _notice(self, life: Life, outcome: Outcome, entry: Entry) -> None:
        """What is worth to have been seen once."""
        ran = self._world.timeline.now - life.started_at
        if isinstance(outcome.decision, Succeed):
            if ran > self._world.parameters.lease.total_seconds() * 1.5 * SECOND:
                self._reached("a job runs long after its first lease would have ended")
            if life.kind == PROBE_KIND:
                self._reached("a probe job runs")
            if life.wish_at is not None:
                self._reached("success wins over a wish to cancel")
        if entry.code in POINTS:
            self._reached(POINTS[entry.code])
        if type(outcome.decision).__name__ == "Cancel":
            self._reached("a cancelled attempt stops")
        if outcome.reclaimed_by is None and (life.id, life.attempt) in self._executions:
            self._reached("a task does not stop when told to")


def _count(life: Life, outcome: Outcome, now: int) -> None:
    decision = outcome.decision
    if isinstance(decision, Retry | Postpone):
        life.due = now + decision.delay // timedelta(microseconds=1)
    if isinstance(decision, Park) and (wait := decision.least if decision.is_held else decision.delay):
        life.due = now + wait // timedelta(microseconds=1)
    if isinstance(decision, Succeed | Retry | Postpone | Park):
        life.losses = life.crashes = 0
    if isinstance(decision, Retry):
        life.failures += 1
        # One that was cancelled instead waits for nothing.
        life.is_unpaid = not life.is_over
        require(life.failures < life.max_attempts, f"{life.name} is tried more often than allowed")
    if isinstance(decision, Postpone):
        life.snoozes += 1
    if isinstance(decision, Park) and not decision.is_held:
        life.returns += 1
    ledger = decision.verdict.ledger if isinstance(decision, Fail) else getattr(decision, "ledger", None)
    if ledger is not None:
        setattr(life, str(ledger), getattr(life, str(ledger)) + 1)
    if outcome.reclaimed_by is not None:
        is_failure = outcome.stuck_after is not None and isinstance(decision, Retry | Postpone | Park | Fail)
        require(ledger == "losses" or is_failure, f"{life.name}: a lost lease was not counted")


def _may_be_taken(life: Life, outcome: Outcome, now: int) -> bool:
    """Whether another than the holder may settle: the lease is over, or the attempt is stuck."""
    if outcome.stuck_after is None:
        return life.lease_until == microseconds(outcome.lease.until) < now
    longest = max(outcome.stuck_after, outcome.lease.job.timeout or timedelta(0))
    return life.claimed_at + longest // timedelta(microseconds=1) < now
