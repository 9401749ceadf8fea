"""Starts workers, the client and the reader as forks of one process that has imported the engine.

They run the same programs; only the import, which is most of a cold start, is done once instead of for each process
that is killed. Run as `python -m chaos.fork_server`: it reads one order a line, and answers each with one line.
"""

import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from chaos.forked import ForkedProcess, status_of


class ForkServer:
    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chaos.fork_server"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=log.parent,
            text=True,
            bufsize=1,
        )

    def start(
        self, module: str, arguments: Sequence[object], environment: Mapping[str, str], log: Path | None = None
    ) -> ForkedProcess:
        """`python -m module …`, in the folder of its log."""
        order = {"module": module, "arguments": [str(each) for each in arguments], "environment": dict(environment)}
        return ForkedProcess(self, self.ask({**order, "log": str(log or self._log)}))

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
    import mulligan.store.sqlite
    import mulligan.worker.children.process  # noqa: F401

    # Objects that the collector never visits are never copied for the forks.
    gc.collect()
    gc.freeze()
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        answer = status_of(order["status of"]) if "status of" in order else os.fork()
        if answer == 0 and "module" in order:
            _run_program(**order)
        print(json.dumps(answer), flush=True)


def _run_program(module: str, arguments: list[str], environment: dict[str, str], log: str) -> NoReturn:
    """Run the program as from a shell: in its own process group, its output in the log."""
    os.setpgid(0, 0)
    os.chdir(Path(log).parent)
    nothing, words = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for ours, standard in ((nothing, 0), (words, 1), (words, 2)):
        os.dup2(ours, standard)
    os.environ.clear()
    os.environ.update(environment)
    if module == WORKER:
        _work(arguments)
    else:
        import_module(module).main(*arguments)
    sys.exit(0)


WORKER = "mulligan"


def _work(arguments: list[str]) -> None:
    from chaos.child_fork_server import ChildForkServer
    from mulligan.cli import main as mulligan
    from mulligan.worker.children import pool

    pool._start = ChildForkServer().start  # type: ignore[assignment]
    sys.argv = ["mulligan", *arguments]
    mulligan()


if __name__ == "__main__":
    main()
