"""The program of a child process: it loads the app and runs attempts for its worker, one at a time.

The main thread runs the attempts; another receives messages. When the worker ends, so does the child: the connection
closes. On Linux the kernel also kills the child's process group when the lifeline closes, even while C code blocks the
interpreter.
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

from mulligan import traces
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
from mulligan.worker.children.locate import load_app
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
from mulligan.worker.drivers import InlineDriver, Interrupt
from mulligan.worker.ending import Ended, Failed, Judged, Success
from mulligan.worker.forks import Executor, hide_signals_from_forks
from mulligan.worker.hooks import enter_lifespan_on
from mulligan.worker.loop_guard import guard_loop, run_to_end
from mulligan.worker.run import run
from mulligan.worker.running import Running

T = TypeVar("T")
Line = Wire[wire.ToChild]

PROGRESS_SECONDS = 0.5
# On Linux the private writable memory, which is close to the memory really used; elsewhere the address space.
LIMITED = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS


def main(line_number: int, lifeline: int, crash_file: int) -> None:
    """Run the child. The pool starts it in its own session."""
    line = _line(line_number)
    _end_with_worker(lifeline)
    os.set_inheritable(crash_file, False)  # noqa: FBT003
    faulthandler.enable(crash_file)
    # Only the worker stops the child, not a signal to every process of a service or terminal.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: None)
    with contextlib.suppress(LineClosed, Interrupted), hide_signals_from_forks():
        hello = line.receive(None)
        assert isinstance(hello, Hello)
        app = _load(hello, line)
        if app is not None:
            _serve(app, line)


def _line(number: int) -> Line:
    # Programs and forks that a task starts must not use this connection.
    os.set_inheritable(number, False)  # noqa: FBT003
    line: Line = Wire(socket.socket(fileno=number), wire.ToChild)
    os.register_at_fork(after_in_child=line.close)
    return line


def _end_with_worker(lifeline: int) -> None:
    os.set_inheritable(lifeline, False)  # noqa: FBT003
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _load(hello: Hello, line: Line) -> Any:
    sys.argv = hello.argv
    logging.root.addHandler(WorkerLogHandler(line))
    logging.root.setLevel(hello.log_level)
    # Importing runs user code: it may raise anything.
    try:
        app = load_app(hello.location)
        app.redact(*password_of(hello.database_url))
        app.settings = replace(app.settings, database_url=hello.database_url)
    except BaseException as error:
        line.send(LoadFailed(f"{evidence.type_name(type(error))}: {evidence.message_of(error)}"))
        return None
    return app


def _serve(app: Any, line: Line) -> None:
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(Executor(thread_name_prefix="asyncio"))
        try:
            with enter_lifespan_on(runner, app.hooks.lifespan, app) as resources:
                line.send(Ready(list(app.tasks.kinds)))
                ChildProgram(app, line, runner, resources).serve()
        except LifespanFailed as error:
            # If it failed at the end, the worker no longer reads messages.
            sys.stderr.write(f"{error}\n")
            line.send(LoadFailed(str(error)))


class WorkerLogHandler(logging.Handler):
    """Sends log lines to the worker, whose handlers write them."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line
        self.addFilter(JobContext())

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(LineClosed):
            text = evidence.try_or(lambda: self.format(record), "(a line that cannot be formatted)")
            self._line.send(LogLine(record.name, record.levelno, sanitize(text, DETAIL_LIMIT), extras(record)))


class ChildProgram:
    def __init__(self, app: Any, line: Line, runner: asyncio.Runner, resources: Any) -> None:
        self._app = app
        self._line = line
        self._runner = runner
        # The store is opened only when a task asks for its fence.
        self._ports = Ports(secure=lambda fence: bool(app.store.secure(fence)), resources=resources)
        self._requests: queue.SimpleQueue[tuple[AttemptRequest, Running] | None] = queue.SimpleQueue()
        self._running: Running | None = None
        self._is_interrupted = False

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, self._terminated)
        threading.Thread(target=self._receive, name="mulligan-messages", daemon=True).start()
        while (todo := self._requests.get()) is not None:
            answer = self._work(*todo)
            self._running = None
            self._line.send(answer)
            if isinstance(answer, wire.AttemptFailed) and answer.is_spent:
                return

    # Messages

    def _receive(self) -> None:
        try:
            while True:
                self._handle(self._line.receive(PROGRESS_SECONDS if self._running else None))
        except LineClosed:
            if self._running is not None:
                os.killpg(0, signal.SIGKILL)
            self._requests.put(None)

    def _handle(self, message: wire.ToChild | None) -> None:
        match message:
            case PolicyUpdate(content=content):
                self._app.policies.follow(content)
            case AttemptRequest():
                self._running = Running(_lease(message), claimed=0.0, extend_at=0.0, ports=self._ports)
                if message.trace:
                    self._running.make_current = partial(traces.continue_from, message.trace)
                self._requests.put((message, self._running))
            case StopRequest(why=why) if self._running is not None:
                self._running.interrupt(why)
        if self._running is not None and self._running.has_news:
            progress = self._running.progress()
            self._running.mark_stored(progress)
            self._line.send(ProgressReport(progress.ratio, progress.text))

    # The work

    def _work(self, request: AttemptRequest, running: Running) -> wire.AttemptEnd:
        task = self._app.tasks[request.kind]
        self._line.send(AttemptBegun())
        try:
            with _limit_memory(request.memory):
                ended = self._run(running, task)
        except MemoryError as error:
            # There was not even enough memory to return the failure.
            ended = Failed(Failure.of(error))
        answer = self._answer(request, ended)
        if isinstance(answer, wire.AttemptSucceeded | wire.AttemptFailed):
            answer.calls = running.attempt.calls
        return answer

    def _run(self, running: Running, task: Task[..., Any, Any]) -> Ended:
        if task.is_async:
            return self._run_coroutine(running, task)
        running.set_interrupt(self._interrupt_main_thread)
        around = self._app.hooks.around
        if not around:
            return _run_without_loop(run(running, task, InlineDriver()))
        driver = PausedLoopDriver(self._runner.get_loop())
        return driver.run(run(running, task, driver, around))

    def _run_coroutine(self, running: Running, task: Task[..., Any, Any]) -> Ended:
        ending = run(running, task, InlineDriver(), self._app.hooks.around)

        async def interruptible() -> Ended:
            loop, current = asyncio.get_running_loop(), asyncio.current_task()
            assert current is not None

            def interrupt() -> None:
                loop.call_soon_threadsafe(current.cancel)

            running.set_interrupt(interrupt)
            with guard_loop(loop, loop.stop):
                return await ending

        return run_to_end(self._runner, interruptible(), goes_on=True)

    def _answer(self, request: AttemptRequest, ended: Ended) -> wire.AttemptEnd:
        match ended:
            case Success(result=result):
                return wire.AttemptSucceeded(result)
            case Failed(what=what):
                return self._classify(request, what)
            case Judged(verdict=verdict):
                return wire.AttemptFailed(verdict)
        return wire.AttemptStopped()

    def _classify(self, request: AttemptRequest, failure: Failure) -> wire.AttemptFailed:
        verdict = self._app.judge.verdict(failure, request.kind, request.owner)
        ran_out = failure.exception is not None and evidence.is_a(failure.exception, MemoryError)
        if ran_out and request.memory is not None and verdict.rule == "system.memory":
            # Without the limit it would have crashed the worker, so it is charged as a crash.
            verdict = replace(verdict, ledger=Ledger.CRASHES)
        return wire.AttemptFailed(verdict, is_spent=ran_out)

    # Interrupting

    def _interrupt_main_thread(self) -> None:
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        self._is_interrupted = True
        # A real signal also ends a blocking system call.
        signal.pthread_kill(main_thread, signal.SIGTERM)

    def _terminated(self, *_: object) -> None:
        if self._is_interrupted:
            self._is_interrupted = False
            raise Interrupted


def _lease(request: AttemptRequest) -> Lease:
    def load() -> Job[Any]:
        if request.job is None:
            raise StoreDamaged(f"the row of job {request.fence.id!r} could not be read")
        return request.job

    trace_id = traces.trace_id_in(request.trace)
    return Lease(
        request.fence,
        request.kind,
        request.owner,
        request.arguments,
        request.claimed_at,
        request.until,
        load,
        trace_id=trace_id,
    )


def _run_without_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that awaits nothing. No loop runs here, so a plain function may start one."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("the coroutine awaited something")


class PausedLoopDriver(InlineDriver):
    """Runs async hooks on the loop and calls a plain function while the loop is paused, because the function may start
    its own loop."""

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
def _limit_memory(memory: int | None) -> Iterator[None]:
    if memory is None:
        yield
        return
    soft, hard = resource.getrlimit(LIMITED)
    resource.setrlimit(LIMITED, (memory if hard == resource.RLIM_INFINITY else min(memory, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(LIMITED, (soft, hard))
