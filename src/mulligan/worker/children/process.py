"""The program of a child process: it loads the app and runs one attempt after the other for its worker.

The main thread runs the attempts; another listens. Whatever ends the worker ends the child: the line breaks,
and on Linux the kernel itself kills the child's group when the lifeline is closed, also while C code keeps
the interpreter from noticing anything.
"""

import asyncio
import contextlib
import faulthandler
import fcntl
import logging
import os
import queue
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from mulligan.attempt import Ports
from mulligan.errors import LifespanFailed, StoreDamaged
from mulligan.failure import evidence
from mulligan.failure.evidence import DETAIL_LIMIT
from mulligan.failure.redact import password_of, sanitize
from mulligan.failure.verdict import Failure, Ledger
from mulligan.logs import JobContext, extras
from mulligan.program.interrupt import Interrupted
from mulligan.records.job import Job, Lease
from mulligan.task.task import Task
from mulligan.worker.children import wire
from mulligan.worker.children.locate import load
from mulligan.worker.children.wire import Begun, Errand, Hangup, Hello, News, Policed, Ready, Said, Stop, Unable, Wire
from mulligan.worker.drivers import InlineDriver, Interrupt
from mulligan.worker.ending import Ended, Failed, Judged, Success
from mulligan.worker.forks import Executor, signals_stay_here
from mulligan.worker.lifespan import living_on
from mulligan.worker.loop_guard import guarded_loop, run_through
from mulligan.worker.run import run
from mulligan.worker.running import Running

T = TypeVar("T")
Line = Wire[wire.ToChild]

NEWS_SECONDS = 0.5
# On Linux what the process can write to for itself, which is near what it really takes; elsewhere its address space.
LIMITED = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS


def main(line_number: int, lifeline: int, last_words: int) -> None:
    """Started by `children.py`, in a session of its own."""
    line = _line(line_number)
    _die_with_the_worker(lifeline)
    os.set_inheritable(last_words, False)  # noqa: FBT003
    faulthandler.enable(last_words)
    # The worker says when to stop; a signal to every process of a service or a terminal does not.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: None)
    with contextlib.suppress(Hangup, Interrupted), signals_stay_here():
        hello = line.receive(None)
        assert isinstance(hello, Hello)
        app = _app(hello, line)
        if app is not None:
            _live(app, line)


def _line(number: int) -> Line:
    # Neither programs nor forks of a task may speak here.
    os.set_inheritable(number, False)  # noqa: FBT003
    line: Line = Wire(socket.socket(fileno=number), wire.ToChild)
    os.register_at_fork(after_in_child=line.close)
    return line


def _die_with_the_worker(lifeline: int) -> None:
    os.set_inheritable(lifeline, False)  # noqa: FBT003
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _app(hello: Hello, line: Line) -> Any:
    sys.argv = hello.argv
    logging.root.addHandler(ToWorker(line))
    logging.root.setLevel(hello.log_level)
    # Importing runs somebody's code: it may raise anything.
    try:
        app = load(hello.home)
        app.redact(*password_of(hello.database_url))
        app.settings = replace(app.settings, database_url=hello.database_url)
    except BaseException as error:
        line.send(Unable(f"{evidence.type_name(type(error))}: {evidence.message_of(error)}"))
        return None
    return app


def _live(app: Any, line: Line) -> None:
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(Executor(thread_name_prefix="asyncio"))
        try:
            with living_on(runner, app.hooks.lifespan, app) as resources:
                line.send(Ready(list(app.tasks.kinds)))
                ChildProgram(app, line, runner, resources).serve()
        except LifespanFailed as error:
            # At its end nobody listens any more.
            sys.stderr.write(f"{error}\n")
            line.send(Unable(str(error)))


class ToWorker(logging.Handler):
    """What is logged here goes through the worker's own handlers."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line
        self.addFilter(JobContext())

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Hangup):
            text = evidence.try_or(lambda: self.format(record), "(a line that cannot be written)")
            self._line.send(Said(record.name, record.levelno, sanitize(text, DETAIL_LIMIT), extras(record)))


class ChildProgram:
    def __init__(self, app: Any, line: Line, runner: asyncio.Runner, resources: Any) -> None:
        self._app = app
        self._line = line
        self._runner = runner
        # Connected to only by a task that asks for its fence.
        self._ports = Ports(secure=lambda fence: bool(app.store.secure(fence)), resources=resources)
        self._errands: queue.SimpleQueue[tuple[Errand, Running] | None] = queue.SimpleQueue()
        self._running: Running | None = None
        self._is_interrupted = False

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, self._terminated)
        threading.Thread(target=self._listen, name="mulligan-line", daemon=True).start()
        while (todo := self._errands.get()) is not None:
            answer = self._work(*todo)
            self._running = None
            self._line.send(answer)
            if isinstance(answer, wire.Failed) and answer.is_spent:
                return

    # The line

    def _listen(self) -> None:
        try:
            while True:
                self._hear(self._line.receive(NEWS_SECONDS if self._running else None))
        except Hangup:
            if self._running is not None:
                os.killpg(0, signal.SIGKILL)
            self._errands.put(None)

    def _hear(self, message: wire.ToChild | None) -> None:
        match message:
            case Policed(content=content):
                self._app.policies.follow(content)
            case Errand():
                self._running = Running(_lease(message), claimed=0.0, extend_at=0.0, ports=self._ports)
                self._errands.put((message, self._running))
            case Stop(why=why) if self._running is not None:
                self._running.interrupt(why)
        if self._running is not None and self._running.has_news:
            progress = self._running.progress()
            self._running.noted(progress)
            self._line.send(News(progress.ratio, progress.text))

    # The work

    def _work(self, errand: Errand, running: Running) -> wire.Answer:
        task = self._app.tasks[errand.kind]
        self._line.send(Begun())
        try:
            with _limited(errand.memory):
                ended = self._run(running, task)
        except MemoryError as error:
            # There was not even enough to say so.
            ended = Failed(Failure.of(error))
        answer = self._answer(errand, ended)
        if isinstance(answer, wire.Succeeded | wire.Failed):
            answer.calls = running.attempt.calls
        return answer

    def _run(self, running: Running, task: Task[..., Any, Any]) -> Ended:
        if task.is_async:
            return self._run_coroutine(running, task)
        running.interruptible_by(self._interrupt_main_thread)
        around = self._app.hooks.around
        if not around:
            return _without_a_loop(run(running, task, InlineDriver()))
        driver = OutsideDriver(self._runner.get_loop())
        return driver.run(run(running, task, driver, around))

    def _run_coroutine(self, running: Running, task: Task[..., Any, Any]) -> Ended:
        ending = run(running, task, InlineDriver(), self._app.hooks.around)

        async def interruptible() -> Ended:
            loop, current = asyncio.get_running_loop(), asyncio.current_task()
            assert current is not None

            def interrupt() -> None:
                loop.call_soon_threadsafe(current.cancel)

            running.interruptible_by(interrupt)
            with guarded_loop(loop, loop.stop):
                return await ending

        return run_through(self._runner, interruptible(), goes_on=True)

    def _answer(self, errand: Errand, ended: Ended) -> wire.Answer:
        match ended:
            case Success(result=result):
                return wire.Succeeded(result)
            case Failed(what=what):
                return self._judged(errand, what)
            case Judged(verdict=verdict):
                return wire.Failed(verdict)
        return wire.Stopped()

    def _judged(self, errand: Errand, failure: Failure) -> wire.Failed:
        verdict = self._app.judge.verdict(failure, errand.kind, errand.owner)
        ran_out = failure.exception is not None and evidence.is_a(failure.exception, MemoryError)
        if ran_out and errand.memory is not None and verdict.rule == "system.memory":
            # What the limit stopped would have taken its worker down: it is charged as that.
            verdict = replace(verdict, ledger=Ledger.CRASHES)
        return wire.Failed(verdict, is_spent=ran_out)

    # Interrupting

    def _interrupt_main_thread(self) -> None:
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        self._is_interrupted = True
        # A real signal: it also ends a wait in the operating system.
        signal.pthread_kill(main_thread, signal.SIGTERM)

    def _terminated(self, *_: object) -> None:
        if self._is_interrupted:
            self._is_interrupted = False
            raise Interrupted


def _lease(errand: Errand) -> Lease:
    def load() -> Job[Any]:
        if errand.job is None:
            raise StoreDamaged(f"the row of job {errand.fence.id!r} could not be read")
        return errand.job

    return Lease(errand.fence, errand.kind, errand.owner, errand.arguments, errand.claimed_at, errand.until, load)


def _without_a_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that awaits nothing: a plain function may start a loop of its own."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("it waits for something")


class OutsideDriver(InlineDriver):
    """Hooks may be async and run on the loop; a plain function is called while the loop stands still, for it may
    start one of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._todo: tuple[Callable[[], Any], asyncio.Future[Any]] | None = None

    async def call(self, function: Callable[[], T], _on_start: Callable[[Interrupt], None], /) -> T:
        self._todo = (partial(copy_context().run, function), self._loop.create_future())
        self._loop.stop()
        result: T = await self._todo[1]
        return result

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = self._loop.create_task(coroutine)
        task.add_done_callback(lambda _: self._loop.stop())
        while not task.done():
            try:
                self._loop.run_forever()
            except Interrupted:
                task.cancel()
            self._call()
        return task.result()

    def _call(self) -> None:
        if self._todo is None:
            return
        (function, future), self._todo = self._todo, None
        try:
            future.set_result(function())
        except BaseException as error:
            # asyncio refuses StopIteration in a future.
            future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)


@contextlib.contextmanager
def _limited(memory: int | None) -> Iterator[None]:
    if memory is None:
        yield
        return
    soft, hard = resource.getrlimit(LIMITED)
    resource.setrlimit(LIMITED, (memory if hard == resource.RLIM_INFINITY else min(memory, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(LIMITED, (soft, hard))
