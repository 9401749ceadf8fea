"""What a task's code can see and say while it runs: `attempt()`."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Unpack

from mulligan import program
from mulligan.errors import LeaseLost, StoreDamaged, StoreError
from mulligan.failure.checks import bad_value
from mulligan.failure.redact import bounded
from mulligan.program.interrupt import Interrupted
from mulligan.records.job import Called, Fence, Job, Lease
from mulligan.service.config import check_exact_name
from mulligan.values.clock import Ids, SystemClock, system_randomness

# More than that in one attempt tell nothing new.
MOST_CALLS = 100


@dataclass(frozen=True, slots=True)
class Ports:
    """What an attempt may ask of whoever runs it; these are the answers where nobody does."""

    secure: Callable[[Fence], bool] = lambda _fence: True
    """Make the claim durable; whether it still holds."""
    blocking: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread
    """Call without holding up the loop."""
    resources: Any = None
    """What the app's lifespan yielded."""


NO_PORTS = Ports()


class Attempt:
    """One run of a job by one worker under one lease."""

    # What most attempts never change stands here, and costs them nothing.
    cancelled = False
    """Somebody asked to stop, or time is up. Code that cannot be interrupted should look here."""
    lost = False
    """The lease is gone: whatever this attempt still does, its result will be refused."""
    is_over = False
    """The task has ended: what it left behind is to end too."""
    may_block = False
    """The task is a plain function: it may block the thread it runs in, whichever that is."""
    has_looked = False
    """The task asked for the record of its job."""
    is_cut_off = False
    """It could not be had: the store does not answer."""
    calls: tuple[Called, ...] = ()
    ratio = 0.0
    _said = _looked_at = _text = ""

    def __init__(self, lease: Lease | None, ports: Ports = NO_PORTS) -> None:
        self._lease = lease
        self._ports = ports
        self.number = lease.fence.attempt if lease else 0
        """1 for the first run of the job, one more for each further one."""

    @property
    def job(self) -> Job[Any]:
        """The job as it was when this attempt began.

        A worker none of whose tasks ever asked has to ask the store: that may take a moment. Raises `LeaseLost` when
        another has the job by now; if the store does not answer, the attempt is released and nothing is counted.
        """
        if self._lease is None:
            raise RuntimeError("attempt().job: no job is running here; this code was called outside a worker")
        self.has_looked = True
        try:
            return self._lease.job
        except LeaseLost:
            self.lost = True
            raise
        except StoreDamaged:
            raise
        except StoreError:
            self.is_cut_off = True
            raise

    @property
    def resources(self) -> Any:
        """What the app's `lifespan` yielded in this process; None without one, and outside a worker."""
        return self._ports.resources

    @property
    def fields(self) -> dict[str, Any]:
        """`job_id`, `kind`, `owner`, `attempt` and `worker`, for lines of a log; nothing outside a worker."""
        return self._lease.fields if self._lease else {}

    def progress(self, ratio: float, text: str = "") -> None:
        """Say how far the work is, from 0 to 1. Cheap: it is stored about once a second."""
        self.ratio = min(1.0, max(0.0, float(ratio)))
        self._said = str(text)

    @property
    def text(self) -> str:
        """What was said last, as it may be kept. Looked at only now: a task may say far more than is stored."""
        said = self._said
        if said is not self._looked_at:
            self._text, self._looked_at = bounded(said), said
        return self._text

    def fence(self) -> int:
        """The attempt's number, for a condition in your own SQL: whoever writes with a lower one came too late.

        The claim is made durable first, so that no later attempt can have the same number. Raises
        `LeaseLost` when another worker has the job by now. Blocks; outside a worker it is 0.
        """
        if self._lease is None:
            return 0
        if self.lost or not self._ports.secure(self._lease.fence):
            self.lost = True
            raise LeaseLost(self._lease.fence.id, self.number)
        return self.number

    async def fence_async(self) -> int:
        """As `fence`, without holding up the loop."""
        number: int = await self._ports.blocking(self.fence)
        return number

    def run(
        self,
        argv: Sequence[program.Argument],
        *,
        progress: program.Progress | None = None,
        **options: Unpack[program.ProgramOptions],
    ) -> program.Output:
        """Run a program and wait for its end: `timeout=`, `cwd=`, `env=`, `input=`, `stdout=`, `accept=`.

        `progress` is called with every line it writes and may return a ratio, or a ratio and a text.
        Raises `ProgramFailed`, or `ProgramTimedOut`. All it started is killed when it ends, when the
        attempt is stopped, and when the worker dies.
        """
        if not self.may_block and _is_on_a_loop():
            raise RuntimeError("attempt().run would block the event loop; use 'await attempt().run_async(…)' here")
        return self._run(argv, progress, options, lambda: self._is_stopped)

    async def run_async(
        self,
        argv: Sequence[program.Argument],
        *,
        progress: program.Progress | None = None,
        **options: Unpack[program.ProgramOptions],
    ) -> program.Output:
        """As `run`, without holding up the loop; `progress` is called in another thread."""
        stop = threading.Event()

        def call() -> program.Output:
            return self._run(argv, progress, options, lambda: self._is_stopped or stop.is_set())

        running = asyncio.ensure_future(self._ports.blocking(call))
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            stop.set()
            await _ended(running)
            raise
        finally:
            stop.set()
        try:
            output: program.Output = running.result()
        except Interrupted:
            raise asyncio.CancelledError from None
        return output

    def _run(
        self,
        argv: Sequence[program.Argument],
        progress: program.Progress | None,
        options: program.ProgramOptions,
        is_stopped: Callable[[], bool],
    ) -> program.Output:
        on_line = None if progress is None else program.Reporter(progress, self.progress)
        return program.run(argv, on_line=on_line, is_stopped=is_stopped, **options)

    @property
    def _is_stopped(self) -> bool:
        return self.cancelled or self.lost or self.is_over

    def called(
        self, service: str, *, status: int | None = None, seconds: float | None = None, ok: bool | None = None
    ) -> None:
        """Report a call of a service, so that its breaker hears of it: the job's own, or another one.

        By `status` 5xx, 408 and 429 blame the service, anything else does not; `ok` says it outright. What is reported
        of the job's own service counts instead of how the attempt ends.
        """
        call = _checked(Called(check_exact_name(service), _is_well(status) if ok is None else ok, status, seconds))
        if self._lease is not None and len(self.calls) < MOST_CALLS:
            self.calls = (*self.calls, call)

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Call a function that blocks, without holding up the loop."""
        return await self._ports.blocking(call)

    def idempotency_key(self, step: str = "") -> str:
        """The same for every attempt of this job: hand it to services that refuse a second time.

        Outside a worker every key is new, so that two plain calls are never taken for one.
        """
        base = self._lease.fence.id if self._lease else _new_key()
        return f"{base}:{step}" if step else base


def _is_well(status: int | None) -> bool:
    # What is no status is refused after this.
    return not isinstance(status, int) or (status < 500 and status not in (408, 429))


def _checked(call: Called) -> Called:
    """What a task says is stored with its outcome: nothing but plain values may get there."""
    if not isinstance(call.ok, bool):
        raise bad_value("ok of a call", call.ok, "True, False or None")
    if call.status is not None and not isinstance(call.status, int):
        raise bad_value("status of a call", call.status, "a whole number such as 503, or None")
    if call.seconds is not None and not isinstance(call.seconds, int | float):
        raise bad_value("seconds of a call", call.seconds, "a number or None")
    return call


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _ended(running: "asyncio.Future[Any]") -> None:
    """It was told to stop and takes a moment: further cancellations do not make it faster."""
    while not running.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({running})
    if not running.cancelled():
        running.exception()  # seen, whoever asks for it


_new_key = Ids(SystemClock(), system_randomness())
CURRENT: ContextVar[Attempt] = ContextVar("mulligan_attempt")
_OUTSIDE = Attempt(None)


def attempt() -> Attempt:
    """The attempt this code runs in; outside a worker one that does nothing."""
    return CURRENT.get(_OUTSIDE)
