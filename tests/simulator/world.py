"""A world from a seed: a store, workers, clients, faults, and an oracle that checks every operation."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mulligan.service.config import ServiceBook
from simulator.clients import Clients
from simulator.clocks import StoreClock
from simulator.faults import Faults
from simulator.fleet import Fleet
from simulator.gateway import KIND as NEEDS_GATEWAY
from simulator.gateway import Gateway
from simulator.oracle import Oracle
from simulator.parameters import Parameters
from simulator.promises import Promises
from simulator.server import ObservedStore, StoreServer
from simulator.sometimes import Reached
from simulator.timeline import SECOND, Timeline

if TYPE_CHECKING:
    from simulator.participants import Participant, Process

# Of a retry, a delay or a snooze, in seconds.
LONGEST_WAIT = 600
STEPS = (-600, -60, -1.5, 0.7, 5, 60, 120, 600)


class World:
    """`is_told` keeps a trace, one line for each event. `parameters` default to those drawn from the seed."""

    def __init__(self, seed: int, *, parameters: Parameters | None = None, is_told: bool = False) -> None:
        self.seed = seed
        self._master = random.Random(seed)
        self._randomness = self.fork()
        drawn = Parameters.draw(self.fork())
        self.parameters = parameters or drawn
        self.is_told = is_told
        self.is_heard = True
        self.story: list[str] = []
        self.broken: str | None = None
        self.reached = Reached()
        self.timeline = Timeline(self.fork())
        self.clock = StoreClock(self.timeline, midnight=self.parameters.midnight)
        self.allotment = self.parameters.allotment
        self.faults = Faults(self.parameters, self.fork())
        self.by_incarnation: dict[str, Process] = {}
        self.troubled_at = 0
        self.outage_at = 0
        self.is_shift = False
        self._is_closing = self._is_ended = self._is_watched = False
        self.gateway = Gateway(seed, self.timeline, first_outage=self.parameters.gateway.first_outage)
        self.services = self.gateway.services(self.parameters)
        book = ServiceBook(self.services)
        self.server = StoreServer(self, ObservedStore(self.clock, lambda: book))
        self.oracle = Oracle(self)
        self.promises = Promises(self)
        self._fleet = Fleet(self)
        self.clients = Clients(self)

    def fork(self) -> random.Random:
        """A random source of its own, so that one part's draws do not change another's."""
        return random.Random(self._master.getrandbits(64))

    @property
    def processes(self) -> "list[Process]":
        return self._fleet.processes

    def is_gateway_down(self, kind: str) -> bool:
        """For a task of this kind."""
        return self.parameters.has_gateway and kind == NEEDS_GATEWAY and self.gateway.is_down

    # Called by the participants

    def tell(self, who: str, what: str) -> None:
        if self.is_told:
            self.story.append(f"{self.timeline.now / SECOND:11.3f}  {who:11}  {what}")

    def break_promise(self, what: str) -> None:
        """The first broken promise ends the world."""
        if self._is_ended:
            return
        if self.broken is None:
            self.broken = f"at {self.timeline.now / SECOND:.3f} s: {what}"
            self.tell("oracle", f"BROKEN: {what}")
        self.timeline.is_over = True

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """Leave the logs of dead processes out of the trace."""
        self.is_heard = False
        try:
            yield
        finally:
            self.is_heard = True

    def wake(self, by: "Participant") -> None:
        """The log has grown: wake the other processes, in a world with wake-ups."""
        if not self.parameters.has_wakeups:
            return
        for process in self.processes:
            if process is not by and process.driver.wake is not None and not process.is_dead:
                process.loop.call_soon(process.driver.wake)

    # The hour

    def run(self, hours: float = 1.0) -> None:
        end = int(hours * 3600 * SECOND)
        self._shift(end)
        self.timeline.run(end)
        self._close()
        self.oracle.compare_all()
        self.oracle.compare_streams()

    def watch(self) -> None:
        """Check the promises each second while a process is alive. Without one nothing is promised."""
        if not self._is_watched:
            self._is_watched = True
            self.timeline.call_at((self.timeline.now // SECOND + 1) * SECOND, self._watch)

    def _watch(self) -> None:
        """Once a second."""
        self._is_watched = not all(process.is_dead for process in self.processes)
        if self._is_watched:
            self.promises.look()
            self.oracle.limits.look()
            self.timeline.call_in(1, self._watch)

    def _shift(self, end: int) -> None:
        """Start the fleet and plan the faults of one shift; a pause follows."""
        if self.timeline.now >= end:
            return
        randomness, parameters = self._randomness, self.parameters
        length = randomness.uniform(20, 50 + 1.5 * parameters.lease.total_seconds())
        self.is_shift = True
        self.tell("world", f"a shift of {length:.0f} s begins")
        self._fleet.come()
        self._plan_faults(length)
        self._strike(parameters.outages, length, self._outage)
        self._strike(parameters.clock_steps, length, self._step)
        self._strike(parameters.crashes, length, self._crash)
        self._strike(parameters.pauses, length, self._pause)
        self._plan(length, self._rest)
        # The engine polls each second: what an hour costs is how many workers are there for how long.
        lull = randomness.uniform(150, 650) * len(parameters.seats)
        self._plan(length + lull, lambda: self._shift(end))

    def _plan(self, seconds: float, happening: Callable[[], None]) -> None:
        """For later, unless the last shift has begun by then."""
        self.timeline.call_in(seconds, lambda: None if self._is_closing else happening())

    def _rest(self) -> None:
        self.tell("world", "the shift ends")
        self.is_shift = False
        self.oracle.compare_all()
        self._fleet.go()

    def _strike(self, expected: float, length: float, what: Callable[[], None]) -> None:
        while self._randomness.random() < expected:
            expected -= 1
            self._plan(self._randomness.uniform(5, length + 5), what)

    def _plan_faults(self, length: float) -> None:
        begin = self._randomness.uniform(0, 20)
        while begin < length:
            calm = begin + self._randomness.uniform(5, 40)
            self._plan(begin, lambda: self._switch_faults(has_faults=True))
            self._plan(calm, lambda: self._switch_faults(has_faults=False))
            begin = calm + self._randomness.uniform(5, 60)

    def _switch_faults(self, *, has_faults: bool) -> None:
        self.faults.has_faults = has_faults
        self.tell("faults", "begin" if has_faults else "end")

    def _outage(self) -> None:
        self.tell("faults", "the store is down")
        self.faults.is_out = True
        self.timeline.call_in(self._randomness.uniform(0.5, 1.5 * self.parameters.lease.total_seconds()), self._back)

    def _back(self) -> None:
        self.tell("faults", "the store is up again")
        self.faults.is_out = False
        self.troubled_at = self.outage_at = self.timeline.now

    def _step(self) -> None:
        seconds = self._randomness.choice(STEPS)
        self.tell("faults", f"the store's clock steps by {seconds} s")
        self.reached.note(f"the store's clock steps {'forward' if seconds > 0 else 'back'}")
        self.clock.step(seconds)
        self.troubled_at = self.timeline.now

    def _crash(self) -> None:
        if (process := self._fleet.any()) is not None:
            process.crash()

    def _pause(self) -> None:
        if (process := self._fleet.any()) is not None:
            process.pause(self.faults.pause_seconds())

    def end(self) -> None:
        """End all participants without a trace."""
        self.is_told, self._is_ended = False, True
        self.clients.leave()
        for process in self.processes:
            process.crash()
        self.timeline.is_over = False
        self.timeline.run(self.timeline.now)

    # The end: no more faults, and nothing may be left over

    @property
    def _is_any_left(self) -> bool:
        """Jobs that wait for the budget of another day do not count."""
        lives = self.oracle.lives
        latest = self.clock.microseconds + LONGEST_WAIT * SECOND
        return bool(lives.queued or lives.running) or any(life.due < latest for life in lives.waiting.values())

    def _close(self) -> None:
        if self.timeline.is_over:
            return
        self.tell("world", "the last shift begins, and nothing breaks any more")
        self.is_shift = self._is_closing = True
        self.faults.has_faults = self.faults.is_out = False
        self.gateway.heal()
        self.clock.put_right()
        self.troubled_at = self.timeline.now
        self.clients.rest()
        self.clients.finish()
        self._fleet.close()
        lives = self.oracle.lives
        # Jobs of a service that fails some of their calls are claimed once in some seconds.
        paced = 10 * sum(life.kind == NEEDS_GATEWAY for life in [*lives.waiting.values(), *lives.queued.values()])
        deadline = self.timeline.now + int((600 + paced + 12 * self.parameters.lease.total_seconds()) * SECOND)
        redrives = self.oracle.redrives
        while (self._is_any_left or redrives.going) and self.timeline.now < deadline:
            self.timeline.run(self.timeline.now + 5 * SECOND)
            if self.timeline.is_over:
                return
        left = [*lives.waiting.values(), *lives.queued.values(), *lives.running.values()]
        overdue = [life for life in left if life.state != "waiting" or life.due <= self.clock.microseconds]
        if overdue:
            self.break_promise(f"{overdue[0].name} ({overdue[0].kind}) is {overdue[0].state} at the end of the world")
        if redrives.going:
            self.break_promise(f"redrive {redrives.going[0].id} is still running at the end of the world")
        if missing := [job for job in self.clients.accepted if job not in lives.by_id and job not in lives.deleted]:
            self.break_promise(f"{missing[0]} was accepted and is gone")
