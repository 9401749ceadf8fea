"""Where workers, the client and the reader are born: forks of one process that has imported the engine.

What they do and suffer is the same; only the import, which is most of a cold start, is done once and not for each of
those who are killed. Run as `python -m chaos.nursery`: an order a line in, an answer a line out.
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

from chaos.born import Born, status_of


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

    def start(
        self, module: str, arguments: Sequence[object], environment: Mapping[str, str], log: Path | None = None
    ) -> Born:
        """`python -m module …`, in the folder of its log."""
        order = {"module": module, "arguments": [str(each) for each in arguments], "environment": dict(environment)}
        return Born(self, self.ask({**order, "log": str(log or self._log)}))

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

    # What is never looked at is never copied for those who are born.
    gc.collect()
    gc.freeze()
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        answer = status_of(order["status of"]) if "status of" in order else os.fork()
        if answer == 0 and "module" in order:
            _become(**order)
        print(json.dumps(answer), flush=True)


def _become(module: str, arguments: list[str], environment: dict[str, str], log: str) -> NoReturn:
    """The program as it would run from a shell: in a group of its own, its words in the log."""
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
    from chaos.cradle import Cradle
    from mulligan.cli import main as mulligan
    from mulligan.worker.children import pool

    pool._start = Cradle().start  # type: ignore[assignment]
    sys.argv = ["mulligan", *arguments]
    mulligan()


if __name__ == "__main__":
    main()
