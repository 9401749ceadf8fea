"""`mulligan worker --reload`: the same command in a process of its own, started anew when a source changes."""

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
# What runs may finish for so long; then it is released, and runs again under the new code.
DRAIN_SECONDS = 1.0
RELEASE_SECONDS = 15.0
SETTINGS = "mulligan.toml"

Sources = dict[str, tuple[int, int]]


def run_reloading(folders: list[Path]) -> int:
    """Until told to stop; the exit status of the last worker. It is told what we are told."""
    return _Reloader(folders).run()


class _Reloader:
    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders
        self._worker: subprocess.Popen[bytes] | None = None
        self._is_stopping = False

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        status = 0
        while not self._is_stopping:
            seen = sources(self._folders)
            self._start()
            changed = self._watch(seen)
            status = self._end()
            if changed:
                _say(f"{changed} changed: the worker is started anew")
        return status

    def _start(self) -> None:
        command = [sys.executable, *(word for word in sys.orig_argv[1:] if word != "--reload")]
        WARDEN.ready()
        # Compiled code is told apart by whole seconds and size: that of the file before could pass for this one's.
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        # A group of its own: Ctrl-C at the terminal reaches it once, through us.
        self._worker = subprocess.Popen(command, process_group=0, env=environment)  # noqa: S603
        WARDEN.guard(self._worker.pid)
        if self._is_stopping:
            self._worker.terminate()

    def _watch(self, seen: Sources) -> str | None:
        """The source that changed; None when we were told to stop."""
        has_ended = False
        while not self._is_stopping:
            if self._has_ended(LOOK_SECONDS) and not has_ended:
                has_ended = True
                _say("the worker has ended; it is started anew when a source changes")
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
        # Told to stop it takes the time it needs, as it would without us.
        status = self._worker.wait()
        WARDEN.forget(self._worker.pid)
        return status

    def _has_ended(self, seconds: float) -> bool:
        assert self._worker is not None
        try:
            self._worker.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        # It returns at once for one that has ended.
        time.sleep(min(seconds, LOOK_SECONDS))
        return True

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stopping = True
        if self._worker is not None and self._worker.returncode is None:
            self._worker.terminate()


def folders_of(app: str | None) -> list[Path]:
    """Where the sources of an app are: here, and beside the file that it is named by."""
    place = Path((app or "").rpartition(":")[0])
    beside = [place.parent.resolve()] if place.suffix == ".py" else []
    return list(dict.fromkeys([Path.cwd(), *beside]))


def sources(folders: list[Path]) -> Sources:
    """Every source with the time and size by which a change is noticed."""
    found: Sources = {}
    for path in (path for folder in folders for path in _files(folder)):
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            continue
        found[path] = (status.st_mtime_ns, status.st_size)
    return found


def _files(folder: Path) -> Iterator[str]:
    for place, names, files in os.walk(folder):
        # Installed packages are not the project's, hidden folders not sources.
        names[:] = [
            name for name in names if not name.startswith((".", "__pycache__")) and not _is_foreign(place, name)
        ]
        yield from (os.path.join(place, file) for file in files if file.endswith(".py") or file == SETTINGS)  # noqa: PTH118


def _is_foreign(place: str, name: str) -> bool:
    return name in ("node_modules", "site-packages") or os.path.exists(os.path.join(place, name, "pyvenv.cfg"))  # noqa: PTH110, PTH118


def _difference(before: Sources, now: Sources) -> str:
    path = min(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    return os.path.relpath(path)


def _say(text: str) -> None:
    click.echo(safe(text), err=True)
