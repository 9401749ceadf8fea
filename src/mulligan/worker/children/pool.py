"""A pool of warm child processes: an attempt that kills its process harms neither the worker nor other attempts.

A thread serves each attempt in a child: it receives the child's messages, checks ten times a second whether to stop
it, and finds out how it died. Children are started when needed, at most as many as attempts run at once.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakSet

from mulligan.errors import BadTask, JobNotFound, StoreDamaged
from mulligan.failure.error_codes import Catalogue
from mulligan.failure.verdict import Failure, Verdict, crashed
from mulligan.policies.file import NO_FILE, PolicyFile
from mulligan.program.warden import WARDEN
from mulligan.program.watch import MARK, end_strays, find_descendants
from mulligan.records.job import Job, Lease
from mulligan.task.task import Task
from mulligan.values.clock import Clock
from mulligan.worker.children import wire
from mulligan.worker.children.locate import AppLocation
from mulligan.worker.children.wire import (
    AttemptBegun,
    AttemptRequest,
    Hello,
    LineClosed,
    LoadFailed,
    LogLine,
    PolicyUpdate,
    ProgressReport,
    Ready,
    StopRequest,
    Wire,
)
from mulligan.worker.drivers import Threads
from mulligan.worker.ending import Ended, Failed, Judged, Success
from mulligan.worker.run import end_if_interrupted
from mulligan.worker.running import Running

logger = logging.getLogger("mulligan.children")

AnyTask = Task[..., Any, Any]

TICK_SECONDS = 0.1
# How long loading an app may take.
START_SECONDS = 60.0
# Between the request to stop and the kill; shorter than the grace of the worker's slots.
GRACE_SECONDS = 2.0
# An idle child may be killed from outside; the attempt that it did not begin goes to another child.
TRIES = 3
LONGEST_OUTPUT = 16 * 1024

_BOOT = "import sys; sys.path[:] = {path!r}; from mulligan.worker.children.process import main; main{fds!r}"


class Unloadable(Exception):
    """A child cannot load the app, or the app has no such task."""


class _StoppedEarly(Exception):
    """The attempt was interrupted before it began."""


class ChildExit(NamedTuple):
    """How a child ended. `exit` is its status, negative for a signal, None if the worker killed it."""

    exit: int | None
    last_output: str


_children: "WeakSet[ChildProcess]" = WeakSet()


class ChildProcess:
    """One child, as seen by its worker. Used by one thread at a time."""

    def __init__(self, hello: Hello, clock: Clock) -> None:
        self._clock = clock
        self.kinds: list[str] | None = None
        self._policies = b""
        # Every process that it starts inherits the mark, in any session.
        self._mark = f"child-{uuid4().hex}"
        WARDEN.guard(self._mark)
        ours, theirs = socket.socketpair()
        their_end, our_end = os.pipe()
        self._line: Wire[wire.FromChild] = Wire(ours, wire.FromChild)
        # Never written to. The kernel closes it when this process ends, even by SIGKILL.
        self._lifeline = os.fdopen(our_end, "w")
        # Where the interpreter writes its traceback when it crashes.
        self._last_output = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            with theirs, os.fdopen(their_end):
                self._process = _start(self._mark, theirs.fileno(), their_end, self._last_output.fileno())
        except OSError:
            WARDEN.forget(self._mark)
            self._close()
            raise
        _children.add(self)
        self._send(hello)

    def _send(self, message: wire.ToChild) -> None:
        # If the child is gone, the next `receive` raises.
        with contextlib.suppress(LineClosed):
            self._line.send(message)

    def receive(self) -> wire.FromChild | None:
        """The next message within a tick. Log lines go to this process's log. Raises LineClosed."""
        message = self._line.receive(TICK_SECONDS)
        # A process that the child forked may keep the connection open.
        if message is None and self._process.poll() is not None:
            # What it sent before its end counts.
            message = self._line.receive(0)
            if message is None:
                raise LineClosed
        if isinstance(message, LogLine):
            logging.getLogger(message.logger).log(message.level, "%s", message.text, extra=message.fields)
            return None
        return message

    def load(self, running: Running | None) -> None:
        """Wait until it has loaded the app."""
        end = self._clock.monotonic() + START_SECONDS
        while self.kinds is None:
            match self.receive():
                case Ready(kinds=kinds):
                    self.kinds = kinds
                case LoadFailed(problem=problem):
                    raise Unloadable(problem)
            if running is not None and running.why is not None:
                raise _StoppedEarly
            if self._clock.monotonic() > end:
                raise Unloadable(f"it took longer than {START_SECONDS:.0f} seconds")

    def update_policies(self, content: bytes) -> None:
        """Make it classify by the policies file that is in force here."""
        if content != self._policies:
            self._policies = content
            self._send(PolicyUpdate(content))

    def begin(self, request: AttemptRequest, running: Running) -> None:
        self._send(request)
        while not isinstance(self.receive(), AttemptBegun):
            if running.why is not None:
                raise _StoppedEarly

    def answer(self, running: Running) -> wire.AttemptEnd:
        """How the attempt ended. Raises LineClosed when the child died or did not stop.

        After the request to stop, the child has a moment to clean up and its answer no longer counts: C code that was
        woken by a signal may look as if it had finished.
        """
        end: float | None = None
        while end is None or self._clock.monotonic() < end:
            match self.receive():
                case ProgressReport(ratio=ratio, text=text):
                    running.attempt.progress(ratio, text)
                case wire.AttemptSucceeded() | wire.AttemptFailed() | wire.AttemptStopped() as answer:
                    return answer if end is None else wire.AttemptStopped()
            if end is None and running.why is not None:
                self._send(StopRequest(running.why))
                self._signal(signal.SIGTERM)
                end = self._clock.monotonic() + GRACE_SECONDS
        raise LineClosed

    def hang_up(self) -> None:
        """Close the connection, so that the child ends by itself."""
        self._line.close()

    def end(self, grace: float = 1.0) -> ChildExit:
        """Wait for its end, or kill it, with every process that it started."""
        started = find_descendants(self._process.pid)
        exit: int | None = None  # noqa: A001
        with contextlib.suppress(subprocess.TimeoutExpired):
            exit = self._process.wait(grace)  # noqa: A001
        self.kill()
        self._process.wait()
        end_strays(self._mark, started)
        WARDEN.forget(self._mark)
        self._last_output.seek(0)
        output = self._last_output.read(LONGEST_OUTPUT).decode(errors="replace")
        self._close()
        return ChildExit(exit, output)

    def _close(self) -> None:
        for each in (self._line, self._lifeline, self._last_output):
            each.close()

    def disconnect(self) -> None:
        """In a fork of the worker: close the connections, which would keep the child alive after the worker's end."""
        self._line.close()
        self._lifeline.close()

    def kill(self) -> None:
        """Kill it, from any thread. The thread that uses it notices."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _in_fork() -> None:
    for child in list(_children):
        child.disconnect()


os.register_at_fork(after_in_child=_in_fork)


def _start(mark: str, *fds: int) -> "subprocess.Popen[bytes]":
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", _BOOT.format(path=path, fds=fds)],
        pass_fds=fds,
        stdin=subprocess.DEVNULL,
        env=os.environ | {MARK: mark},
        # Ctrl-C in the terminal is for the worker, which lets jobs finish.
        start_new_session=True,
    )


class ChildPool:
    """The children of one worker. `locate` is called when the first one is needed."""

    def __init__(
        self,
        locate: Callable[[], AppLocation | None],
        *,
        database_url: str,
        catalogue: Catalogue,
        clock: Clock,
        policies: PolicyFile = NO_FILE,
    ) -> None:
        self._locate = locate
        self._database_url = database_url
        self._catalogue = catalogue
        self._clock = clock
        self._policies = policies
        self._hello: Hello | None = None
        self._threads = Threads("mulligan-child")
        self._lock = threading.Lock()
        self._idle: list[ChildProcess] = []
        self._alive: set[ChildProcess] = set()
        self._warned: set[str] = set()
        self._is_closed = False

    async def prepare(self, tasks: Iterable[AnyTask]) -> None:
        """Start the first child if a task needs one. Raises BadTask for a task that must run in a child and cannot."""
        if isolated := [task for task in tasks if task.isolate]:
            await self._threads.run(lambda: self._prepare(isolated))

    async def run(self, running: Running, task: AnyTask, begun: Callable[[], None]) -> Ended | None:
        """How the attempt ended; None when no child can run it and it may run in the worker."""
        loop = asyncio.get_running_loop()
        # The thread that serves it checks `why`.
        running.set_interrupt(lambda: None)

        def has_begun() -> None:
            loop.call_soon_threadsafe(begun)

        call = self._threads.start(lambda: self._serve(running, task, has_begun))
        try:
            ended: Ended = await asyncio.shield(call.future)
        except Unloadable as error:
            return self._run_without_child(task, error)
        return ended

    async def close(self) -> None:
        """End all children: idle ones by themselves, the others at once."""
        await self._threads.run(self._close)
        self._threads.close()

    # In a thread

    def _prepare(self, isolated: list[AnyTask]) -> None:
        try:
            child = self._loaded(None)
        except (Unloadable, LineClosed) as error:
            problem = str(error) or "the process ended while it did so"
            raise BadTask(
                f"task {isolated[0].name!r} runs in a child process, which cannot load it: {problem}"
            ) from None
        self._keep(child)
        for task in isolated:
            if task.name not in (child.kinds or ()):
                raise BadTask(f"task {task.name!r} runs in a child process, which cannot load it: {_MISSING}")

    def _serve(self, running: Running, task: AnyTask, begun: Callable[[], None]) -> Ended:
        for _ in range(TRIES):
            try:
                child = self._begun(running, task)
            except LineClosed:
                continue
            except _StoppedEarly:
                return end_if_interrupted(running) or Failed(Failure.of(RuntimeError("stopped before it began")))
            begun()
            return self._finish(child, running)
        raise Unloadable(f"the process ended {TRIES} times while it loaded the app")

    def _begun(self, running: Running, task: AnyTask) -> ChildProcess:
        child = self._loaded(running)
        try:
            if running.lease.kind not in (child.kinds or ()):
                raise Unloadable(_MISSING)
            child.update_policies(self._policies.content)
            request = _request(running, task)
            running.has_begun = True
            child.begin(request, running)
        except Unloadable:
            self._keep(child)
            raise
        except LineClosed:
            # It would have reported the beginning first.
            running.has_begun = False
            self._end(child, grace=0)
            raise
        except BaseException:
            self._end(child, grace=0)
            raise
        return child

    def _finish(self, child: ChildProcess, running: Running) -> Ended:
        try:
            answer = child.answer(running)
        except LineClosed:
            child_exit = self._end(child, grace=0 if running.why else 1)
            return end_if_interrupted(running) or Judged(self._verdict(child_exit, running.lease.kind))
        if running.why is not None or (isinstance(answer, wire.AttemptFailed) and answer.is_spent):
            self._end(child, grace=0)
        else:
            self._keep(child)
        return _to_ended(answer, running)

    def _loaded(self, running: Running | None) -> ChildProcess:
        child = self._take()
        try:
            child.load(running)
        except BaseException:
            self._end(child, grace=0)
            raise
        return child

    def _take(self) -> ChildProcess:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        child = ChildProcess(self._first_message(), self._clock)
        with self._lock:
            self._alive.add(child)
        return child

    def _keep(self, child: ChildProcess) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(child)
                return
        self._end(child, grace=0)

    def _verdict(self, child_exit: ChildExit, kind: str) -> Verdict:
        return crashed(exit=child_exit.exit, kind=kind, detail=child_exit.last_output, catalogue=self._catalogue)

    def _end(self, child: ChildProcess, grace: float) -> ChildExit:
        with self._lock:
            self._alive.discard(child)
        return child.end(grace)

    def _close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            busy = self._alive - set(idle)
        for child in idle:
            child.hang_up()
        for child in busy:
            child.kill()
        end = self._clock.monotonic() + GRACE_SECONDS
        for child in idle:
            self._end(child, grace=max(0.0, end - self._clock.monotonic()))

    def _first_message(self) -> Hello:
        if self._hello is None:
            location = self._locate()
            if location is None:
                raise Unloadable("the app is not a global name of a module or of a script")
            self._hello = Hello(location, sys.argv, self._database_url, logging.root.level)
        return self._hello

    def _run_without_child(self, task: AnyTask, error: Unloadable) -> Ended | None:
        if task.isolate:
            problem = ImportError(f"no child process can run this task: {error}")
            return Failed(Failure.of(problem))
        if task.name not in self._warned:
            self._warned.add(task.name)
            sentence = "a job of task %r that lost its worker runs in this worker, because no child can run it: %s"
            logger.warning(sentence, task.name, error)
        return None


_MISSING = "importing the app does not define it; define it at the top of a module, not inside a function"


def _request(running: Running, task: AnyTask) -> AttemptRequest:
    lease = running.lease
    return AttemptRequest(
        lease.kind,
        lease.owner,
        lease.fence,
        lease.arguments,
        lease.claimed_at,
        lease.until,
        _job(lease),
        task.memory,
        () if running.trace is None else running.trace.tags,
    )


def _job(lease: Lease) -> Job[Any] | None:
    try:
        return lease.job
    except (StoreDamaged, JobNotFound):
        return None


def _to_ended(answer: wire.AttemptEnd, running: Running) -> Ended:
    if isinstance(answer, wire.AttemptSucceeded | wire.AttemptFailed):
        running.attempt.calls += answer.calls
    match answer:
        case wire.AttemptSucceeded(result=result):
            return Success(result)
        case wire.AttemptFailed(verdict=verdict):
            return end_if_interrupted(running) or Judged(verdict)
        case wire.AttemptStopped():
            return end_if_interrupted(running) or Failed(
                Failure.of(RuntimeError("the child stopped it without a request"))
            )
