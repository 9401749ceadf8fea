"""The oracle: it reads the log and the rows after every operation, and checks whether that operation may do this.

It keeps its own model. The store's answers, the log and the rows must agree. Each part checks one sort of operation.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from conformance.fields import check_fields
from conformance.invariants import all_events, check_streams
from mulligan.errors import BatchClosed, SubmitRateExceeded
from simulator.batches import BatchWatch
from simulator.broken import Broken, require
from simulator.claims import ClaimWatch
from simulator.enqueues import EnqueueWatch
from simulator.executions import Executions
from simulator.follow_ups import FollowUpWatch
from simulator.gates import GateWatch
from simulator.gateway import ServiceWatch
from simulator.leases import LeaseWatch
from simulator.limits import LimitWatch
from simulator.moves import MoveWatch
from simulator.promotions import PromotionWatch
from simulator.redrives import RedriveWatch
from simulator.requests import RequestWatch
from simulator.server import Call, Entry
from simulator.settles import SettleWatch
from simulator.shares import RateWatch, ShareWatch
from simulator.transitions import Transitions

if TYPE_CHECKING:
    from simulator.world import World

Look = Callable[[Call, list[Entry]], None]

# The calls that name their worker. The first claim and the first beat may be slower than the first look at leases.
INTRODUCE: dict[str, Callable[[Call], str]] = {
    "claim": lambda call: str(call.asked.incarnation),
    "beat": lambda call: str(call.asked.worker.incarnation),
    "overdue": lambda call: str(call.options["besides"]),
}


def _wrote_alerts(call: Call, entries: list[Entry]) -> None:
    """An evaluation of alerts is about no job."""
    require(all(entry.type.startswith("alert.") and not entry.job for entry in entries), "wrote more than alerts")


ENQUEUED = "job.enqueued"
# The operations that are about new jobs. Others store only jobs that follow cancelled ones.
STORING = ("enqueue", "reject")


class Oracle:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._position = 0
        transitions = Transitions(world.timeline)
        self.lives = transitions.lives
        self.limits = LimitWatch(world, self.lives)
        self._gates = GateWatch(world, self.lives)
        shares = ShareWatch(world)
        self.executions = Executions(world, self.lives)
        self.batches = BatchWatch(world, transitions)
        self._services = ServiceWatch(world)
        promotions = PromotionWatch(world, transitions, self.batches, self._gates)
        rates = RateWatch(world)
        leases = LeaseWatch(world, self.lives, shares, rates, self._services)
        self._claims = ClaimWatch(world, transitions, promotions, shares, self._services)
        self.redrives = RedriveWatch(
            world.reached.note,
            follow=transitions.follow,
            opened=promotions.promoted_one,
            now=lambda: world.timeline.now,
            store=world.server.store,
            lives=self.lives,
        )
        enqueues = EnqueueWatch(world, self.lives, self.batches, shares, rates)
        self._follow_ups = FollowUpWatch(world, self.lives, enqueues)
        requests = RequestWatch(world.reached, world.server.store, self.lives, enqueues)
        self._looks: dict[str, Look] = {
            "enqueue": enqueues.enqueued,
            "reject": requests.rejected,
            "release_key": requests.released,
            "claim": self._claims.claimed,
            "promote": promotions.promoted,
            "publish": promotions.published,
            "expire": promotions.expired,
            "adopt": leases.adopted,
            "beat": leases.beaten,
            "now": leases.clock_read,
            "overdue": leases.called_overdue,
            "settle": SettleWatch(world, transitions, leases, self.executions, self._services).settled,
            "move": MoveWatch(world, transitions, promotions).moved,
            "begin_redrive": self.redrives.begun,
            "advance_redrive": self.redrives.advanced,
            "cancel_redrive": self.redrives.cancelled,
            "forget": self.redrives.forgot,
            "create_batch": self.batches.created,
            "tend_batches": self.batches.tended,
            "write_alerts": _wrote_alerts,
        }

    def look(self, call: Call) -> None:
        """Compare what was asked, what was answered, what the log says and what the rows hold."""
        try:
            self._look(call)
        except Broken as broken:
            self._world.break_promise(f"{call.participant.name} {call.name}: {broken}")
        except Exception as error:
            # The log tells what cannot be followed at all.
            self._world.break_promise(f"{call.participant.name} {call.name}: no story can be made of this: {error!r}")

    def _look(self, call: Call) -> None:
        entries = self._world.server.store.log(self._position, expected=_rows_of_its_own(call))
        self._services.read()
        if call.name in INTRODUCE:
            self._introduce(call)
        if call.error is not None and not self._may_refuse(call):
            require(not entries, f"failed with {call.error!r} and wrote to the log all the same")
            raise Broken(f"failed with {call.error!r}")
        look = self._looks.get(call.name)
        if entries:
            self._position = entries[-1].position
            require(look is not None, "wrote to the log")
            for entry in entries:
                require(entry.at == call.now, f"{entry.type} is dated {entry.at}, the store's clock says {call.now}")
            if call.name not in STORING:
                self._follow_ups.look(call, entries)
            self.batches.open(call, entries)
        if look is not None:
            is_stored = call.name in STORING
            look(call, [entry for entry in entries if entry.is_of_jobs and (is_stored or entry.type != ENQUEUED)])
        if self._world.server.store.has_changed:
            self._gates.look(call, entries)
        if entries:
            for entry in entries:
                if entry.type == "job.queued":
                    self.limits.admitted(self.lives.by_id[entry.job])
            self._services.look(call, entries)
            self.batches.look(call, entries)
            self._compare(call, [entry for entry in entries if entry.job])
        if call.name == "claim":
            self._claims.in_order(call)

    def compare_streams(self) -> None:
        """A reader of the stream sees the whole log, and a reader with a filter its part of it."""
        store = self._world.server.store
        try:
            events = all_events(store)
            assert [event.position for event in events] == [row[0] for row in store.whole_log()]
            check_streams(store, events)
            check_fields(events)
        except AssertionError as error:
            self._world.break_promise(f"the stream differs from the log: {error}")

    def _may_refuse(self, call: Call) -> bool:
        """A request may come late, when the batch that its jobs were to join is published."""
        if isinstance(call.error, BatchClosed):
            return not self.batches.takes_members(call.error.batch_id)
        return call.name in ("move", "release_key") or isinstance(call.error, SubmitRateExceeded)

    def _introduce(self, call: Call) -> None:
        incarnation = INTRODUCE[call.name](call)
        if not incarnation:
            # The doctor asks about all workers.
            return
        participant: Any = call.participant
        if not participant.incarnation:
            self._world.by_incarnation[incarnation] = participant
            participant.incarnation = incarnation
        require(participant.incarnation == incarnation, "speaks for another")

    def _compare(self, call: Call, entries: list[Entry]) -> None:
        """The rows of the jobs that something happened to."""
        for entry in entries:
            self._tell(call, entry)
        for job in dict.fromkeys(entry.job for entry in entries):
            self.lives.by_id[job].compare(self._world.server.store.row(job))
        if entries:
            self._world.wake(call.participant)

    def compare_all(self) -> None:
        """Every row, also those that did not change."""
        rows = self._world.server.store.rows()
        try:
            require([row[0] for row in rows] == list(self.lives.by_id), "rows are missing or unknown")
            for id_, *row in rows:
                self.lives.by_id[id_].compare(tuple(row))
            self.limits.recount()
        except Broken as broken:
            self._world.break_promise(str(broken))

    def _tell(self, call: Call, entry: Entry) -> None:
        world = self._world
        if world.is_told:
            life = self.lives.by_id[entry.job]
            attempt = f" attempt {entry.attempt}" if entry.attempt else ""
            code = f" {entry.code}" if entry.code else ""
            world.tell(call.participant.name, f"{call.name}: {life.name} ({life.kind}){attempt} {entry.type[4:]}{code}")


def _rows_of_its_own(call: Call) -> int:
    """How many an operation writes about its caller only: that a worker is there, and its duties."""
    match call.name:
        case "beat":
            return 1
        case "record_runs":
            return len(call.asked)
        case _:
            return 0
