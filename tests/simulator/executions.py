"""The oracle checks the code of tasks: an attempt runs once, under its lease, and alone unless the lease was lost."""

from typing import TYPE_CHECKING

from simulator.broken import Broken, require
from simulator.lives import Lives
from simulator.timeline import SECOND

if TYPE_CHECKING:
    from simulator.participants import Process
    from simulator.world import World


class Executions:
    def __init__(self, world: "World", lives: Lives) -> None:
        self._world = world
        self._reached = world.reached.note
        self._lives = lives
        self._begun: dict[tuple[str, int], None] = {}
        self._running: dict[tuple[str, int], Process] = {}

    def __contains__(self, body: tuple[str, int]) -> bool:
        return body in self._running

    def begins(self, process: "Process", job: str, attempt: int) -> None:
        if process.is_dead:
            return
        try:
            self._check(process, job, attempt)
        except Broken as broken:
            self._world.break_promise(f"{process.name}: {broken}")
        self._running[job, attempt] = process

    def _check(self, process: "Process", job: str, attempt: int) -> None:
        life = self._lives.known(job)
        require((job, attempt) not in self._begun, f"{life.name}: attempt {attempt} runs twice")
        self._begun[job, attempt] = None
        is_current = life.attempt == attempt and life.holder is not None and life.holder[0] == process.incarnation
        require(is_current or attempt in life.settled, f"{life.name}: attempt {attempt} runs without a lease")
        for other, number in self._running:
            if other != job or number == attempt:
                continue
            # The older one may also be the one that begins: its worker has not heard yet that the lease is lost.
            is_lost = min(number, attempt) in life.settled
            require(is_lost, f"{life.name}: attempts {number} and {attempt} run at once")
            self._reached("two attempts of a job overlap after a lost lease")

    def ends(self, process: "Process", job: str, attempt: int) -> None:
        if process.is_dead:
            return
        self._running.pop((job, attempt), None)
        process.frees(job, attempt)

    def died(self, process: "Process") -> None:
        """What ran in it runs no more."""
        for body in [body for body, runner in self._running.items() if runner is process]:
            del self._running[body]

    def left(self, process: "Process") -> None:
        """A worker that drained in peace leaves nothing behind."""
        if self._world.timeline.now - process.steady_since < 60 * SECOND or not process.incarnation:
            return
        left = [
            life.name for life in self._lives.held_by(process.incarnation) if (life.id, life.attempt) in process.knows
        ]
        if left:
            self._world.break_promise(f"{process.name} left in peace and still holds {', '.join(left)}")
        self._reached("a worker drains in peace")
