"""The fleet: workers that come for a shift and go, are killed and started again."""

from functools import partial
from typing import TYPE_CHECKING

from simulator.parameters import KINDS
from simulator.participants import Process

if TYPE_CHECKING:
    from simulator.world import World


class Fleet:
    """A seat is a place where one worker runs at a time, with a supervisor that starts the next."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._randomness = world.fork()
        self._seats: list[tuple[str, ...]] = list(world.parameters.seats)
        self._concurrency = world.parameters.concurrency
        self._starts = self._shift = 0
        self.processes: list[Process] = []

    def come(self) -> None:
        self._shift += 1
        for seat in range(len(self._seats)):
            self._world.timeline.call_in(self._randomness.uniform(0, 5), partial(self._start, seat, self._shift))

    def _start(self, seat: int, shift: int) -> None:
        if not self._world.is_shift or shift != self._shift:
            return
        self._starts += 1
        self.processes = [process for process in self.processes if not process.is_dead]
        process = Process(
            self._world, f"worker {seat + 1}.{self._starts}", self._seats[seat], concurrency=self._concurrency
        )
        self.processes.append(process)
        self._world.watch()
        self._supervise(process, seat, shift)

    def _supervise(self, process: Process, seat: int, shift: int) -> None:
        if shift != self._shift:
            return
        if process.is_dead:
            self._world.timeline.call_in(self._randomness.uniform(0.2, 8), partial(self._start, seat, shift))
        else:
            self._world.timeline.call_in(1, partial(self._supervise, process, seat, shift))

    def go(self) -> None:
        """Most are told to stop, some twice; some are killed, and some are stopped and forgotten for a while."""
        for process in self.processes:
            draw = self._randomness.random()
            if draw < 0.1:
                process.crash()
            elif draw < 0.15:
                process.pause(self._randomness.uniform(30, 300))
            else:
                process.stop()
                if draw < 0.3:
                    self._world.timeline.call_in(self._randomness.uniform(0, 3), process.stop)
            # A process that is still here at the next shift is told once more.
            self._world.timeline.call_in(self._randomness.uniform(40, 100), process.stop)

    def any(self) -> Process | None:
        up = [process for process in self.processes if not process.is_dead]
        return self._randomness.choice(up) if up else None

    def close(self) -> None:
        """The last shift: all remaining workers are stopped, and two start that know every kind."""
        for process in self.processes:
            process.resume()
            process.stop()
        self._seats = [KINDS, KINDS]
        self._concurrency = 20
        self._world.allotment = self._world.allotment.raised
        self.come()
