"""Where workers are born: forks of one process that has imported the engine, and is no worker itself.

What a worker does and suffers is the same; only the import, which is most of a cold start, is done once and not
for each of those who are killed. Run as `python -m chaos.nursery`: an order a line in, an answer a line out.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

TICK = 0.02


class Born:
    """One process, used as if it were our own child."""

    def __init__(self, nursery: "Nursery", pid: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ask({"status of": self.pid})
        return self.returncode

    def wait(self, seconds: float = 30.0) -> int:
        end = time.monotonic() + seconds
        while (status := self.poll()) is None:
            assert time.monotonic() < end, f"process {self.pid} does not end"
            time.sleep(TICK)
        return status

    def send_signal(self, number: int) -> None:
        # Nobody else has this number: it is given back when the status is asked for, and by nothing else.
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chaos.nursery"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=log.parent,
            text=True,
            bufsize=1,
        )

    def start(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Born:
        order = {"arguments": list(arguments), "environment": dict(environment), "log": str(self._log)}
        return Born(self, self.ask(order))

    def ask(self, order: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._one_at_a_time:
            self._process.stdin.write(f"{json.dumps(order)}\n")
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    import mulligan.cli.worker
    import mulligan.logs
    import mulligan.store.postgres
    import mulligan.store.sqlite  # noqa: F401

    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        answer = _status(order["status of"]) if "status of" in order else os.fork()
        if answer == 0 and "arguments" in order:
            _become(**order)
        print(json.dumps(answer), flush=True)


def _status(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _become(arguments: list[str], environment: dict[str, str], log: str) -> NoReturn:
    """`mulligan …` as it would run from a shell: in a group of its own, its words in the log."""
    from mulligan.cli import main as mulligan

    os.setpgid(0, 0)
    nothing, words = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for ours, standard in ((nothing, 0), (words, 1), (words, 2)):
        os.dup2(ours, standard)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["mulligan", *arguments]
    mulligan()
    sys.exit(0)


if __name__ == "__main__":
    main()
