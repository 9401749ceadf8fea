"""The warden: a small process that outlives us by a moment, and kills the programs we leave behind.

When this process ends, even by SIGKILL, its end of the pipe closes and the warden goes to work. The
kernel's own way (PR_SET_PDEATHSIG) knows neither groups nor systems other than Linux, and is bound to
a thread, not to the process.
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
    """Started with the first program; one for a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: set[int | str] = set()
        """Process groups, and marks of children."""
        self._pid: int | None = None
        self._pipe: int | None = None

    def ready(self) -> None:
        """Be there before a program is: starting takes longer than a program may live unguarded."""
        with self._lock:
            if self._pipe is None:
                self._tell("")

    def guard(self, name: int | str) -> None:
        with self._lock:
            self._names.add(name)
            self._tell(f"+{name}\n")

    def forget(self, name: int | str) -> None:
        """To be called before a group's leader is reaped: its number may be another's then."""
        with self._lock:
            self._names.discard(name)
            self._tell(f"-{name}\n")

    def _tell(self, line: str) -> None:
        try:
            if self._pipe is None:
                self._start()
            else:
                os.write(self._pipe, line.encode())
        except BrokenPipeError:
            # Somebody killed it.
            self._let_go()
            self._tell(line)
        except OSError as error:
            logger.warning("programs of this process would outlive its sudden death: no warden started: %s", error)

    def _start(self) -> None:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", WATCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # In a child it is not one of those that go with the child.
            env={name: value for name, value in os.environ.items() if name != MARK},
            bufsize=0,
            start_new_session=True,
        )
        # It stays when we go: nobody waits for it.
        process.returncode = 0
        assert process.stdin is not None
        self._pid, self._pipe = process.pid, os.dup(process.stdin.fileno())
        process.stdin.close()
        os.write(self._pipe, "".join(f"+{name}\n" for name in self._names).encode())

    def _let_go(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
        if self._pid is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, os.WNOHANG)
        self._pid = self._pipe = None

    def after_fork(self) -> None:
        """In a copy of this process: the warden is our parent's, and must not wait for us to end."""
        if self._pipe is not None:
            os.close(self._pipe)
        self.__init__()  # type: ignore[misc]


WARDEN = Warden()
os.register_at_fork(after_in_child=WARDEN.after_fork)
