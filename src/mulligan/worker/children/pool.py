"""Child processes, kept warm: whatever an attempt does to its process, the worker and its neighbours live.

Each attempt in a child is served by a thread that listens to it, ten times a second looks whether it is to be
stopped, and sees how it died. Children are started when needed, never more than attempts run at once.
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
from mulligan.failure.catalogue import Catalogue
from mulligan.failure.verdict import Failure, Verdict, crashed
from mulligan.policies import NO_FILE, PolicyFile
from mulligan.program.warden import WARDEN
from mulligan.program.watch import MARK, descendants, end_strays
from mulligan.records.job import Job, Lease
from mulligan.task.task import Task
from mulligan.values.clock import Clock
from mulligan.worker.children import wire
from mulligan.worker.children.locate import AppLocation
from mulligan.worker.children.wire import Begun, Errand, Hangup, Hello, News, Policed, Ready, Said, Stop, Unable, Wire
from mulligan.worker.ending import Ended, Failed, Judged, Success
from mulligan.worker.run import end_if_interrupted
from mulligan.worker.running import Running
from mulligan.worker.threads import Threads

logger = logging.getLogger("mulligan.children")

AnyTask = Task[..., Any, Any]

TICK_SECONDS = 0.1
# What loading an app may take.
START_SECONDS = 60.0
# Between the request to stop and the kill; shorter than the worker's own patience with an attempt.
GRACE_SECONDS = 2.0
# An idle child may be killed by anybody; the attempt it did not begin goes to another.
TRIES = 3
LONGEST_WORDS = 16 * 1024

_BOOT = "import sys; sys.path[:] = {path!r}; from mulligan.worker.children.process import main; main{fds!r}"


class Unloadable(Exception):
    """A child cannot load the app, or does not find the task in it."""


class _StoppedBefore(Exception):
    """The attempt was interrupted before it began."""


class ChildExit(NamedTuple):
    """How a child ended: its exit status, below zero for a signal, None when it had to be killed."""

    exit: int | None
    last_words: str


_all: "WeakSet[ChildProcess]" = WeakSet()


class ChildProcess:
    """One process as its worker sees it. Used by one thread at a time."""

    def __init__(self, hello: Hello, clock: Clock) -> None:
        self._clock = clock
        self.kinds: list[str] | None = None
        self._policies = b""
        # Carried by all it starts, whatever session that is in.
        self._mark = f"child-{uuid4().hex}"
        WARDEN.guard(self._mark)
        ours, theirs = socket.socketpair()
        their_end, our_end = os.pipe()
        self._line: Wire[wire.FromChild] = Wire(ours, wire.FromChild)
        # Never written to: closed with this process, however that ends.
        self._lifeline = os.fdopen(our_end, "w")
        # Where the interpreter writes what it was doing when it is struck down.
        self._last_words = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            with theirs, os.fdopen(their_end):
                self._process = _start(self._mark, theirs.fileno(), their_end, self._last_words.fileno())
        except OSError:
            WARDEN.forget(self._mark)
            self._close()
            raise
        _all.add(self)
        self._tell(hello)

    def _tell(self, message: wire.ToChild) -> None:
        # If it is gone, the next look at it says so.
        with contextlib.suppress(Hangup):
            self._line.send(message)

    def hear(self) -> wire.FromChild | None:
        """What it says within a tick; its log goes to ours."""
        message = self._line.receive(TICK_SECONDS)
        # A process that it forked may keep the line open.
        if message is None and self._process.poll() is not None:
            # It may have spoken since; what it said before its end counts.
            message = self._line.receive(0)
            if message is None:
                raise Hangup
        if isinstance(message, Said):
            logging.getLogger(message.logger).log(message.level, "%s", message.text, extra=message.fields)
            return None
        return message

    def load(self, running: Running | None) -> None:
        """Wait until it has loaded the app."""
        end = self._clock.monotonic() + START_SECONDS
        while self.kinds is None:
            match self.hear():
                case Ready(kinds=kinds):
                    self.kinds = kinds
                case Unable(problem=problem):
                    raise Unloadable(problem)
            if running is not None and running.why is not None:
                raise _StoppedBefore
            if self._clock.monotonic() > end:
                raise Unloadable(f"it took longer than {START_SECONDS:.0f} seconds")

    def police(self, content: bytes) -> None:
        """Let it judge by the policies file that is in force here."""
        if content != self._policies:
            self._policies = content
            self._tell(Policed(content))

    def begin(self, errand: Errand, running: Running) -> None:
        self._tell(errand)
        while not isinstance(self.hear(), Begun):
            if running.why is not None:
                raise _StoppedBefore

    def answer(self, running: Running) -> wire.Answer:
        """How the attempt ended, by the child's own word.

        Once it is told to stop it has a moment to clean up, and what it says counts no more: C code that a signal
        woke may look as if it had finished.
        """
        end: float | None = None
        while end is None or self._clock.monotonic() < end:
            match self.hear():
                case News(ratio=ratio, text=text):
                    running.attempt.progress(ratio, text)
                case wire.Succeeded() | wire.Failed() | wire.Stopped() as answer:
                    return answer if end is None else wire.Stopped()
            if end is None and running.why is not None:
                self._tell(Stop(running.why))
                self._signal(signal.SIGTERM)
                end = self._clock.monotonic() + GRACE_SECONDS
        raise Hangup

    def hang_up(self) -> None:
        """Let it end by itself."""
        self._line.close()

    def end(self, patience: float = 1.0) -> ChildExit:
        """See how it ended, or end it. Nothing that it started is left."""
        started = descendants(self._process.pid)
        exit: int | None = None  # noqa: A001
        with contextlib.suppress(subprocess.TimeoutExpired):
            exit = self._process.wait(patience)  # noqa: A001
        self.kill()
        self._process.wait()
        end_strays(self._mark, started)
        WARDEN.forget(self._mark)
        self._last_words.seek(0)
        said = self._last_words.read(LONGEST_WORDS).decode(errors="replace")
        self._close()
        return ChildExit(exit, said)

    def _close(self) -> None:
        for each in (self._line, self._lifeline, self._last_words):
            each.close()

    def let_go(self) -> None:
        """In a copy of the worker, which must not keep it alive when the worker is gone."""
        self._line.close()
        self._lifeline.close()

    def kill(self) -> None:
        """From any thread; the one that uses it sees it end."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _in_copy() -> None:
    for child in list(_all):
        child.let_go()


os.register_at_fork(after_in_child=_in_copy)


def _start(mark: str, *fds: int) -> "subprocess.Popen[bytes]":
    path = [place for place in sys.path if isinstance(place, str)]
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", _BOOT.format(path=path, fds=fds)],
        pass_fds=fds,
        stdin=subprocess.DEVNULL,
        env=os.environ | {MARK: mark},
        # Ctrl-C at the terminal is for the worker, which lets jobs finish.
        start_new_session=True,
    )


class ChildPool:
    """The children of one worker. `find_home` is asked when the first one is needed."""

    def __init__(
        self,
        find_home: Callable[[], AppLocation | None],
        *,
        database_url: str,
        catalogue: Catalogue,
        clock: Clock,
        policies: PolicyFile = NO_FILE,
    ) -> None:
        self._find_home = find_home
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
        """Raises BadTask for a task that must run in a child and cannot."""
        if isolated := [task for task in tasks if task.isolate]:
            await self._threads.run(lambda: self._prepare(isolated))

    async def run(self, running: Running, task: AnyTask, begun: Callable[[], None]) -> Ended | None:
        """How the attempt ended; None when it may run in the worker, for no child can."""
        loop = asyncio.get_running_loop()
        # The thread that serves it looks at `why`.
        running.interruptible_by(lambda: None)

        def has_begun() -> None:
            loop.call_soon_threadsafe(begun)

        call = self._threads.start(lambda: self._serve(running, task, has_begun))
        try:
            ended: Ended = await asyncio.shield(call.future)
        except Unloadable as error:
            return self._instead(task, error)
        return ended

    async def close(self) -> None:
        """End them all: idle ones by themselves, the others at once."""
        await self._threads.run(self._close)
        self._threads.close()

    # In a thread

    def _prepare(self, isolated: list[AnyTask]) -> None:
        try:
            child = self._loaded(None)
        except (Unloadable, Hangup) as error:
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
            except Hangup:
                continue
            except _StoppedBefore:
                return end_if_interrupted(running) or Failed(Failure.of(RuntimeError("stopped before it began")))
            begun()
            return self._finish(child, running)
        raise Unloadable(f"the process ended {TRIES} times while it loaded the app")

    def _begun(self, running: Running, task: AnyTask) -> ChildProcess:
        child = self._loaded(running)
        try:
            if running.lease.kind not in (child.kinds or ()):
                raise Unloadable(_MISSING)
            child.police(self._policies.content)
            errand = _errand(running.lease, task)
            running.has_begun = True
            child.begin(errand, running)
        except Unloadable:
            self._keep(child)
            raise
        except Hangup:
            # Its first word would have come before its end.
            running.has_begun = False
            self._bury(child, patience=0)
            raise
        except BaseException:
            self._bury(child, patience=0)
            raise
        return child

    def _finish(self, child: ChildProcess, running: Running) -> Ended:
        try:
            answer = child.answer(running)
        except Hangup:
            death = self._bury(child, patience=0 if running.why else 1)
            return end_if_interrupted(running) or Judged(self._verdict(death, running.lease.kind))
        if running.why is not None or (isinstance(answer, wire.Failed) and answer.is_spent):
            self._bury(child, patience=0)
        else:
            self._keep(child)
        return _ended(answer, running)

    def _loaded(self, running: Running | None) -> ChildProcess:
        child = self._take()
        try:
            child.load(running)
        except BaseException:
            self._bury(child, patience=0)
            raise
        return child

    def _take(self) -> ChildProcess:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        child = ChildProcess(self._greeting(), self._clock)
        with self._lock:
            self._alive.add(child)
        return child

    def _keep(self, child: ChildProcess) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(child)
                return
        self._bury(child, patience=0)

    def _verdict(self, death: ChildExit, kind: str) -> Verdict:
        return crashed(exit=death.exit, kind=kind, detail=death.last_words, catalogue=self._catalogue)

    def _bury(self, child: ChildProcess, patience: float) -> ChildExit:
        with self._lock:
            self._alive.discard(child)
        return child.end(patience)

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
            self._bury(child, patience=max(0.0, end - self._clock.monotonic()))

    def _greeting(self) -> Hello:
        if self._hello is None:
            home = self._find_home()
            if home is None:
                raise Unloadable("the app is not a global name of a module or of a script")
            self._hello = Hello(home, sys.argv, self._database_url, logging.root.level)
        return self._hello

    def _instead(self, task: AnyTask, error: Unloadable) -> Ended | None:
        if task.isolate:
            problem = ImportError(f"no child process can run this task: {error}")
            return Failed(Failure.of(problem))
        if task.name not in self._warned:
            self._warned.add(task.name)
            logger.warning("task %r runs in the worker after a lost one, for no child can run it: %s", task.name, error)
        return None


_MISSING = "importing the app does not define it; define it at the top of a module, not inside a function"


def _errand(lease: Lease, task: AnyTask) -> Errand:
    return Errand(
        lease.kind, lease.owner, lease.fence, lease.arguments, lease.claimed_at, lease.until, _job(lease), task.memory
    )


def _job(lease: Lease) -> Job[Any] | None:
    try:
        return lease.job
    except (StoreDamaged, JobNotFound):
        return None


def _ended(answer: wire.Answer, running: Running) -> Ended:
    if isinstance(answer, wire.Succeeded | wire.Failed):
        running.attempt.calls += answer.calls
    match answer:
        case wire.Succeeded(result=result):
            return Success(result)
        case wire.Failed(verdict=verdict):
            return end_if_interrupted(running) or Judged(verdict)
        case wire.Stopped():
            return end_if_interrupted(running) or Failed(Failure.of(RuntimeError("the child stopped it unasked")))
