"""`mulligan worker --reload`: run the worker in another process, and restart it when a source file changes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from mulligan.program.warden import WARDEN
from mulligan.values.text import safe

LOOK_SECONDS = 0.3
# Running jobs may finish for this long; then they are released, and run again with the new code.
DRAIN_SECONDS = 1.0
RELEASE_SECONDS = 15.0
SETTINGS = "mulligan.toml"

Sources = dict[str, tuple[int, int]]


class Reloader:
    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders
        self._worker: subprocess.Popen[bytes] | None = None
        self._is_stopping = False

    def run(self) -> int:
        """Run until SIGTERM or Ctrl-C, and return the exit status of the last worker. Signals are passed on to it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        status = 0
        while not self._is_stopping:
            seen = sources(self._folders)
            self._start()
            changed = self._watch(seen)
            status = self._end()
            if changed:
                _report(f"{changed} changed: restarting the worker")
        return status

    def _start(self) -> None:
        command = [sys.executable, *(word for word in sys.orig_argv[1:] if word != "--reload")]
        WARDEN.ready()
        # Compiled files are compared by seconds and size, so that of the previous source could be used for this one.
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        # In its own process group, so that Ctrl-C reaches it only once, through us.
        self._worker = subprocess.Popen(command, process_group=0, env=environment)  # noqa: S603
        WARDEN.guard(self._worker.pid)
        if self._is_stopping:
            self._worker.terminate()

    def _watch(self, seen: Sources) -> str | None:
        """Wait for a change and return the changed file; None after a signal."""
        has_ended = False
        while not self._is_stopping:
            if self._has_ended(LOOK_SECONDS) and not has_ended:
                has_ended = True
                _report("the worker has ended; it restarts when a source file changes")
            now = sources(self._folders)
            if now != seen:
                return _difference(seen, now)
        return None

    def _end(self) -> int:
        assert self._worker is not None
        if not self._is_stopping:
            for seconds in (DRAIN_SECONDS, RELEASE_SECONDS):
                self._worker.terminate()
                if self._has_ended(seconds):
                    break
            else:
                self._worker.kill()
        # After a signal, the worker takes as long as it would without --reload.
        status = self._worker.wait()
        WARDEN.forget(self._worker.pid)
        return status

    def _has_ended(self, seconds: float) -> bool:
        assert self._worker is not None
        try:
            self._worker.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        # `wait` returns at once for an ended process.
        time.sleep(min(seconds, LOOK_SECONDS))
        return True

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stopping = True
        if self._worker is not None and self._worker.returncode is None:
            self._worker.terminate()


def folders_of(app: str | None) -> list[Path]:
    """The folders of the source files: the current one, and that of FILE.py:APP."""
    path = Path((app or "").rpartition(":")[0])
    of_file = [path.parent.resolve()] if path.suffix == ".py" else []
    return list(dict.fromkeys([Path.cwd(), *of_file]))


def sources(folders: list[Path]) -> Sources:
    """Every source file with its modification time and size."""
    found: Sources = {}
    for path in (path for folder in folders for path in _files(folder)):
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            continue
        found[path] = (status.st_mtime_ns, status.st_size)
    return found


def _files(folder: Path) -> Iterator[str]:
    for parent, names, files in os.walk(folder):
        # Not installed packages, and not hidden folders.
        names[:] = [
            name for name in names if not name.startswith((".", "__pycache__")) and not _is_foreign(parent, name)
        ]
        yield from (os.path.join(parent, file) for file in files if file.endswith(".py") or file == SETTINGS)  # noqa: PTH118


def _is_foreign(parent: str, name: str) -> bool:
    return name in ("node_modules", "site-packages") or os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))  # noqa: PTH110, PTH118


def _difference(before: Sources, now: Sources) -> str:
    path = min(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    return os.path.relpath(path)


def _report(text: str) -> None:
    click.echo(safe(text), err=True)
