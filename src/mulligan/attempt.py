"""`attempt()`: what a task's code can learn and report while it runs."""

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
from mulligan.records.job import Fence, Job, Lease, ReportedCall
from mulligan.service.config import check_exact_name
from mulligan.values.clock import Ids, SystemClock, system_randomness

# More calls in one attempt add no information.
MOST_CALLS = 100


@dataclass(frozen=True, slots=True)
class Ports:
    """What an attempt needs of the worker. The defaults are for code outside a worker."""

    secure: Callable[[Fence], bool] = lambda _fence: True
    """Make the claim durable. Returns whether it still holds."""
    blocking: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread
    """Call a function without blocking the event loop."""
    resources: Any = None
    """The value that the app's lifespan yielded."""


NO_PORTS = Ports()


class Attempt:
    """One run of a job by one worker under one lease."""

    # Class attributes: most attempts never set them, so they cost nothing.
    cancelled = False
    """The attempt must stop: it was cancelled, or its time is up. Code that cannot be interrupted should check it."""
    lost = False
    """The lease is lost: the result of this attempt will be refused."""
    is_over = False
    """The task has ended: programs and threads that it left behind must end too."""
    may_block = False
    """The task is a plain function, so it may block the thread it runs in."""
    has_looked = False
    """The task asked for the record of its job."""
    is_cut_off = False
    """The record was not available because the store did not answer."""
    calls: tuple[ReportedCall, ...] = ()
    ratio = 0.0
    _reported = _bounded_from = _text = ""

    def __init__(self, lease: Lease | None, ports: Ports = NO_PORTS) -> None:
        self._lease = lease
        self._ports = ports
        self.number = lease.fence.attempt if lease else 0
        """1 for the first attempt of the job, 2 for the second, and so on."""

    @property
    def job(self) -> Job[Any]:
        """The job as it was when this attempt began.

        May read the store, so it may block for a moment. Raises `LeaseLost` when another worker holds the job by now.
        If the store does not answer, the attempt is released and no attempt is used up.
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
        """The value that the app's `lifespan` yielded in this process; None without one, and outside a worker."""
        return self._ports.resources

    @property
    def fields(self) -> dict[str, Any]:
        """`job_id`, `kind`, `owner`, `attempt` and `worker`, for log lines; empty outside a worker."""
        return self._lease.fields if self._lease else {}

    def progress(self, ratio: float, text: str = "") -> None:
        """Report how far the work is, from 0 to 1. Cheap: it is stored about once a second."""
        self.ratio = min(1.0, max(0.0, float(ratio)))
        self._reported = str(text)

    @property
    def text(self) -> str:
        """The last text of `progress`, shortened for the store. Computed only when it is stored."""
        reported = self._reported
        if reported is not self._bounded_from:
            self._text, self._bounded_from = bounded(reported), reported
        return self._text

    def fence(self) -> int:
        """The attempt's number, for a condition in your own SQL: a write with a lower number must be refused.

        The claim is made durable first, so that no later attempt can have the same number. Raises
        `LeaseLost` when another worker holds the job by now. Blocks. Returns 0 outside a worker.
        """
        if self._lease is None:
            return 0
        if self.lost or not self._ports.secure(self._lease.fence):
            self.lost = True
            raise LeaseLost(self._lease.fence.id, self.number)
        return self.number

    async def fence_async(self) -> int:
        """As `fence`, without blocking the event loop."""
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

        `progress` is called with every line of output and may return a ratio, or a ratio and a text. Raises
        `ProgramFailed` or `ProgramTimedOut`. Every process that the program started is killed when the program ends,
        when the attempt is stopped, and when the worker dies.
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
        """As `run`, without blocking the event loop. `progress` is called in another thread."""
        stop = threading.Event()

        def call() -> program.Output:
            return self._run(argv, progress, options, lambda: self._is_stopped or stop.is_set())

        running = asyncio.ensure_future(self._ports.blocking(call))
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            stop.set()
            await _wait_for_end(running)
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
        """Report a call to a service, the job's own or another, so that its breaker counts it.

        A `status` of 5xx, 408 or 429 counts as a failure of the service, any other does not; `ok` overrides it. For
        the job's own service, the reported calls count instead of the attempt's end.
        """
        call = _check_call(
            ReportedCall(check_exact_name(service), _is_ok(status) if ok is None else ok, status, seconds)
        )
        if self._lease is not None and len(self.calls) < MOST_CALLS:
            self.calls = (*self.calls, call)

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Call a function that blocks, without blocking the event loop."""
        return await self._ports.blocking(call)

    def idempotency_key(self, step: str = "") -> str:
        """A key that is the same in every attempt of this job, for services that ignore repeated requests.

        Outside a worker every key is new, so two plain calls never share a key.
        """
        base = self._lease.fence.id if self._lease else _new_key()
        return f"{base}:{step}" if step else base


def _is_ok(status: int | None) -> bool:
    # A status of another type is refused later, by `_check_call`.
    return not isinstance(status, int) or (status < 500 and status not in (408, 429))


def _check_call(call: ReportedCall) -> ReportedCall:
    """The call, which is stored with the outcome, so it must consist of plain values."""
    if not isinstance(call.ok, bool):
        raise bad_value("ok of a call", call.ok, "True, False or None")
    if call.status is not None and not isinstance(call.status, int):
        raise bad_value("status of a call", call.status, "an integer such as 503, or None")
    if call.seconds is not None and not isinstance(call.seconds, int | float):
        raise bad_value("seconds of a call", call.seconds, "a number or None")
    return call


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _wait_for_end(running: "asyncio.Future[Any]") -> None:
    """Wait for the end of a program that is being stopped. Further cancellations do not make it faster."""
    while not running.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({running})
    if not running.cancelled():
        running.exception()  # marks it as retrieved


_new_key = Ids(SystemClock(), system_randomness())
CURRENT: ContextVar[Attempt] = ContextVar("mulligan_attempt")
_OUTSIDE = Attempt(None)


def attempt() -> Attempt:
    """The attempt that this code runs in; outside a worker, one that does nothing."""
    return CURRENT.get(_OUTSIDE)
