"""The warden: a small process that outlives this one by a moment and kills the programs left behind.

When this process ends, even by SIGKILL, its end of the pipe closes and the warden kills the programs. The kernel's
PR_SET_PDEATHSIG exists only on Linux, does not reach process groups, and is bound to a thread.
"""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

from mulligan.program.watch import MARK

logger = logging.getLogger("mulligan.program")

WATCH = Path(__file__).with_name("watch.py")


class Warden:
    """One for each process, started with the first program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: set[int | str] = set()
        """Process groups, and the marks of children."""
        self._pid: int | None = None
        self._pipe: int | None = None

    def ready(self) -> None:
        """Start the warden before the program: starting takes too long to leave a program unguarded meanwhile."""
        with self._lock:
            if self._pipe is None:
                self._send("")

    def guard(self, name: int | str) -> None:
        with self._lock:
            self._names.add(name)
            self._send(f"+{name}\n")

    def forget(self, name: int | str) -> None:
        """Call it before a group's leader is reaped: after that the kernel may reuse its number."""
        with self._lock:
            self._names.discard(name)
            self._send(f"-{name}\n")

    def _send(self, line: str) -> None:
        try:
            if self._pipe is None:
                self._start()
            else:
                os.write(self._pipe, line.encode())
        except BrokenPipeError:
            # The warden was killed.
            self._forget_process()
            self._send(line)
        except OSError as error:
            logger.warning("no warden could be started, so programs would survive if this process is killed: %s", error)

    def _start(self) -> None:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", WATCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # Without the mark, the warden of a child is not killed with the child.
            env={name: value for name, value in os.environ.items() if name != MARK},
            bufsize=0,
            start_new_session=True,
        )
        # It outlives this process: Popen must not wait for it.
        process.returncode = 0
        assert process.stdin is not None
        self._pid, self._pipe = process.pid, os.dup(process.stdin.fileno())
        process.stdin.close()
        os.write(self._pipe, "".join(f"+{name}\n" for name in self._names).encode())

    def _forget_process(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
        if self._pid is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, os.WNOHANG)
        self._pid = self._pipe = None

    def after_fork(self) -> None:
        """In a fork of this process: the warden belongs to the parent and must not wait for the fork's end."""
        if self._pipe is not None:
            os.close(self._pipe)
        self.__init__()  # type: ignore[misc]


WARDEN = Warden()
os.register_at_fork(after_in_child=WARDEN.after_fork)
