"""Runs one program to its end, without a shell or threads. Every process that it started is killed with it."""

import contextlib
import logging
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, TypeAlias, TypedDict

from mulligan.errors import BadProgram, ProgramFailed, ProgramTimedOut
from mulligan.program.interrupt import Interrupted, listen_for_stop
from mulligan.program.streams import Head, Lines, Tail
from mulligan.program.warden import WARDEN
from mulligan.values.clock import Clock, SystemClock
from mulligan.values.duration import Duration, parse

logger = logging.getLogger("mulligan.program")

Argument: TypeAlias = str | os.PathLike[str]

# How often to check for a stop. Output and the program's end are noticed at once.
TICK = 0.05
# Between SIGTERM and SIGKILL; shorter than a worker waits for interrupted code.
GRACE = 2.0
# How long processes that it started may write after its end.
DRAIN = 0.5
LAST_WAIT = 2.0
CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Output:
    """The result of a program: its exit status, the first 10 MiB of stdout and the last 16 KiB of stderr."""

    exit: int
    stdout: bytes
    stderr: str
    seconds: float
    is_cut: bool
    """Stdout was longer than what is kept."""

    @property
    def text(self) -> str:
        """Stdout, decoded as UTF-8."""
        return self.stdout.decode("utf-8", "replace")


class ProgramOptions(TypedDict, total=False):
    """As for `subprocess.run`: `env` replaces the environment, and `stdout` is a file to write the output to.

    `accept` has the exit statuses that count as success.
    """

    timeout: Duration | None
    cwd: Argument | None
    env: Mapping[str, str] | None
    input: str | bytes | None
    stdout: IO[bytes] | None
    accept: Collection[int]


def run(
    argv: Sequence[Argument],
    *,
    timeout: Duration | None = None,
    cwd: Argument | None = None,
    env: Mapping[str, str] | None = None,
    input: str | bytes | None = None,  # noqa: A002
    stdout: IO[bytes] | None = None,
    accept: Collection[int] = (0,),
    on_line: Callable[[str], None] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    clock: Clock | None = None,
) -> Output:
    """Block until the program has ended. `is_stopped` is called often; when it returns true, everything is killed."""
    command = _command(argv)
    limit = _limit(timeout)
    _check_environment(env)
    clock = clock or SystemClock()
    given = input.encode() if isinstance(input, str) else input
    # The selector first: between the start of the program and its watch, nothing may fail.
    with listen_for_stop(is_stopped), selectors.DefaultSelector() as selector:
        process = _start(command, cwd, env, stdout, is_fed=given is not None)
        running = _RunningProgram(process, selector, given, on_line, clock)
        try:
            is_late = running.watch(limit, is_stopped)
        finally:
            running.end()
    if is_late:
        assert limit is not None
        raise ProgramTimedOut(command[0], limit, stderr=running.stderr)
    if running.status is None or running.status not in accept:
        raise ProgramFailed(command[0], running.status, stderr=running.stderr)
    return running.output(running.status)


def _command(argv: Sequence[Argument]) -> list[str]:
    if isinstance(argv, str | bytes) or not isinstance(argv, Sequence):
        raise BadProgram(argv, "give a list, such as ['ffmpeg', '-i', path]; there is no shell to split a string")
    if not argv:
        raise BadProgram(argv, "the list is empty; its first item is the program")
    command = [_argument(argv, item) for item in argv]
    if not command[0]:
        raise BadProgram(argv, "its first item, the program, is empty")
    return command


def _argument(argv: Sequence[Argument], item: object) -> str:
    if not isinstance(item, str | os.PathLike):
        raise BadProgram(argv, f"{item!r:.80} is of type {type(item).__name__}; every item must be a string or a path")
    text = os.fspath(item)
    if not isinstance(text, str) or "\0" in text:
        raise BadProgram(argv, f"{item!r:.80} contains NUL or consists of bytes; no program can take that")
    return text


def _limit(timeout: Duration | None) -> timedelta | None:
    limit = None if timeout is None else parse(timeout)
    if limit is not None and limit <= timedelta(0):
        raise BadProgram(timeout, "the timeout must be greater than zero; omit it to use the task's timeout")
    return limit


def _check_environment(env: Mapping[str, str] | None) -> None:
    for name, value in (env or {}).items():
        if not (isinstance(name, str) and isinstance(value, str)) or not name or "=" in name or "\0" in name + value:
            raise BadProgram(
                name, "env maps names to values; both must be strings without NUL, and names must not contain '='"
            )


def _start(
    command: list[str],
    cwd: Argument | None,
    env: Mapping[str, str] | None,
    stdout: IO[bytes] | None,
    *,
    is_fed: bool,
) -> "subprocess.Popen[bytes]":
    if cwd is not None:
        Path(cwd).stat()  # otherwise a missing directory would look like a missing program
    WARDEN.ready()
    return subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.PIPE if is_fed else subprocess.DEVNULL,
        stdout=subprocess.PIPE if stdout is None else stdout,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=env,
        bufsize=0,
        start_new_session=True,
    )


class _RunningProgram:
    """A running program, with its pipes and its process group."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        selector: selectors.BaseSelector,
        given: bytes | None,
        on_line: Callable[[str], None] | None,
        clock: Clock,
    ) -> None:
        WARDEN.guard(process.pid)
        self._process = process
        self._on_line = on_line
        self._clock = clock
        self._started = clock.monotonic()
        self._seconds = 0.0
        self._input = memoryview(given or b"")
        self._head, self._tail = Head(), Tail()
        self._lines = {process.stdout: Lines(), process.stderr: Lines()}
        self._pause = 0.001
        self._selector = selector
        for pipe, event, ready in (
            (process.stdin, selectors.EVENT_WRITE, self._write),
            (process.stdout, selectors.EVENT_READ, self._read),
            (process.stderr, selectors.EVENT_READ, self._read),
        ):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, event, ready)
        self.status: int | None = None
        """The exit status, negative for a signal; None if it is unknown."""

    @property
    def stderr(self) -> str:
        return self._tail.text

    def output(self, status: int) -> Output:
        return Output(status, self._head.bytes, self.stderr, self._seconds, self._head.is_cut)

    def watch(self, limit: timedelta | None, is_stopped: Callable[[], bool]) -> bool:
        """Wait until it ends or its time is up; returns whether its time was up. Raises Interrupted."""
        end = None if limit is None else self._started + limit.total_seconds()
        while not self._has_ended():
            if is_stopped():
                raise Interrupted
            left = TICK if end is None else end - self._clock.monotonic()
            if left <= 0:
                return True
            self._pump(min(TICK, left))
        self._pump_until(lambda: not self._selector.get_map(), DRAIN)
        return False

    def end(self) -> None:
        """Ask it to stop, then kill it with every process it started, and close everything."""
        self._on_line = None
        if not self._has_ended():
            self._signal(signal.SIGTERM)
            self._pump_until(self._has_ended, GRACE)
            self._pump_until(lambda: not self._selector.get_map(), TICK)
        self._signal(signal.SIGKILL)
        self._pump_until(self._has_ended, LAST_WAIT)
        WARDEN.forget(self._process.pid)
        self._reap()
        self._close()

    # The process group. While its leader is not reaped, the kernel cannot reuse the number.

    def _signal(self, number: signal.Signals) -> None:
        # No process is left, or none that we may signal.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _has_ended(self) -> bool:
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None  # macOS before Python 3.13 cannot check without reaping
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True  # other code in this process reaped it

    def _reap(self) -> None:
        self._seconds = self._clock.monotonic() - self._started
        if not self._has_ended():
            logger.error("program %d does not end, not even after SIGKILL; it is left behind", self._process.pid)
            return
        if self._process.returncode is None:
            try:
                self.status = os.waitstatus_to_exitcode(os.waitpid(self._process.pid, 0)[1])
            except ChildProcessError:
                self._process.returncode = 0  # unknown, but otherwise Popen would wait for it again
                return
            self._process.returncode = self.status
        self.status = self._process.returncode

    # The pipes

    def _pump_until(self, is_so: Callable[[], bool], seconds: float) -> None:
        end = self._clock.monotonic() + seconds
        while not is_so() and (left := end - self._clock.monotonic()) > 0:
            self._pump(min(TICK, left))

    def _pump(self, seconds: float) -> None:
        """Read and write what is ready; wait at most this long."""
        if not self._selector.get_map():
            # Its pipes are closed, most likely because it is about to end.
            self._pause = min(self._pause * 2, TICK)
            seconds = min(self._pause, seconds)
        for key, _ in self._selector.select(seconds):
            key.data(key.fileobj)

    def _write(self, pipe: IO[bytes]) -> None:
        try:
            self._input = self._input[os.write(pipe.fileno(), self._input[:CHUNK]) :]
        except BrokenPipeError:
            self._input = self._input[:0]  # the program closed its stdin, which is no error
        if not self._input:
            self._drop(pipe)

    def _read(self, pipe: IO[bytes]) -> None:
        data = os.read(pipe.fileno(), CHUNK)
        if not data:
            self._drop(pipe)
        if pipe is self._process.stdout:
            self._head.add(data)
            if self._on_line is None:
                return
        lines = self._lines[pipe]
        for line, stays in lines.feed(data) if data else lines.close():
            if pipe is self._process.stderr:
                self._tail.add(line, stays)
            if line and self._on_line is not None:
                self._on_line(line)

    def _drop(self, pipe: IO[bytes]) -> None:
        self._selector.unregister(pipe)
        pipe.close()

    def _close(self) -> None:
        for key in list(self._selector.get_map().values()):
            self._drop(key.fileobj)  # type: ignore[arg-type]
