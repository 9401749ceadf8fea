"""An app as users write them, at the top of a module: children import it."""

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from mulligan import App, FinalError, Fixed, RateLimitedError, RetryPolicy, Rule, attempt
from mulligan.settings import Settings
from mulligan.testing import crashing

if os.environ.get("ISOLATED_TASKS_BROKEN"):
    raise RuntimeError("this module was broken by a deploy")

app = App(
    settings=Settings(database_url="sqlite:///jobs.db", worker_lease_ttl=timedelta(seconds=1)),
    rules=[Rule("TEAPOT", "final", when=lambda failure: getattr(failure.exception, "temper", "") == "short")],
)
once = RetryPolicy(1)


class Teapot(Exception):
    temper = "short"


# Killers

app.task("exits", isolate=True)(crashing())


@app.task(isolate=True)
def segfaults() -> None:
    ctypes.string_at(0)


@app.task(isolate=True, at_most_once=True)
def dies_only_once() -> None:
    with open("deaths", "a") as deaths:  # noqa: PTH123
        deaths.write("x")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(memory="128M")
def eats_memory() -> None:
    eaten = []
    while True:
        eaten.append(bytearray(2**20))


@app.task(memory="128M")
async def nibbles_memory() -> None:
    eaten = []
    while True:
        eaten.append([None])


@app.task(isolate=True)
def killed_by_the_system() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(isolate=True)
def forks_and_dies() -> None:
    # Like a C library: the interpreter does not know.
    library = ctypes.PyDLL(None)
    if (fork := library.fork()) == 0:
        library.sleep(600)
    Path("forked").write_text(str(fork))
    os._exit(3)


# Neighbours


@app.task
def beside(number: int) -> int:
    time.sleep(0.01)
    return number


@app.task(isolate=True)
async def pid_async() -> int:
    await asyncio.sleep(0)
    return os.getpid()


@app.task(isolate=True)
def pid() -> int:
    return os.getpid()


@app.task
def pid_by_default() -> int:
    return os.getpid()


@app.task(isolate=False)
def pid_never_isolated() -> int:
    return os.getpid()


# Attempts


@app.task(isolate=True)
def introduces_itself() -> list[str]:
    here = attempt()
    return [str(here.number), here.job.kind, here.job.id, here.idempotency_key("step")]


@app.task(isolate=True)
def shows_progress() -> None:
    attempt().progress(0.5, "half way")
    _wait_for("go on")
    attempt().progress(0.9, "nearly")
    _wait_for("finish")


@app.task(isolate=True)
def runs_a_loop_of_its_own() -> int:
    return asyncio.run(asyncio.sleep(0, 7))


@app.task(isolate=True)
def enqueues_another() -> str:
    return beside.enqueue(5).id


@app.task(isolate=True)
def talks() -> str:
    print('{"type": "AttemptSucceeded", "result": "1"}', flush=True)
    os.write(1, b"\0\0\0\1x\n")
    print("to stderr", file=sys.stderr, flush=True)
    logging.getLogger("shop").warning("logged in a child")
    return sys.stdin.read()


# Tasks that do not end


@app.task(isolate=True, timeout="300ms", retry=once)
def sleeps_in_c() -> None:
    Path("started").touch()
    ctypes.PyDLL(None).sleep(600)


@app.task(isolate=True, timeout="300ms", retry=once)
def starts_a_program_and_waits() -> None:
    program = subprocess.Popen(["sleep", "600"])
    Path("program").write_text(str(program.pid))
    program.wait()


def _flee(environment: dict[str, str] | None = None) -> int:
    return subprocess.Popen(["sleep", "600"], start_new_session=True, env=environment).pid


def _flee_twice() -> int:
    """Like a daemon: its parent exits at once, and init adopts it."""
    script = "import os, subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=2).pid)"
    return int(subprocess.check_output([sys.executable, "-c", script], start_new_session=True))


def _started_elsewhere() -> None:
    pids = (_flee(), _flee({"PATH": os.defpath}), _flee_twice())
    Path("programs.new").write_text(" ".join(map(str, pids)))
    Path("programs.new").rename("programs")


@app.task(isolate=True, timeout="3s", retry=once)
def starts_sessions_and_waits() -> None:
    _started_elsewhere()
    time.sleep(600)


@app.task(isolate=True, retry=once)
def starts_sessions_and_dies() -> None:
    pids = (_flee(), _flee_twice())
    Path("programs").write_text(" ".join(map(str, pids)))
    os._exit(9)


@app.task(isolate=True, retry=once)
def starts_sessions() -> None:
    _started_elsewhere()


@app.task(isolate=True)
def holds_the_interpreter() -> int:
    Path("started").touch()
    ctypes.PyDLL(None).usleep(2_500_000)
    return attempt().number


@app.task(isolate=True)
def cleans_up() -> None:
    try:
        _started()
        time.sleep(600)
    finally:
        _cleaned()


@app.task(isolate=True)
async def cleans_up_async() -> None:
    try:
        _started()
        await asyncio.sleep(600)
    finally:
        _cleaned()


@app.task(isolate=True)
def stubborn_in_c() -> None:
    _started()
    while True:
        ctypes.PyDLL(None).sleep(600)


@app.task(isolate=True)
def finishes_soon() -> str:
    _started()
    _wait_for("finish")
    return "finished"


# Failures, each in the worker and in a child


def _raises(error: BaseException) -> None:
    raise error


FAILURES = {
    "teapot": lambda: _raises(Teapot("I am one")),
    "final": lambda: _raises(FinalError("no", code="NOT_PDF")),
    "status": lambda: _raises(RateLimitedError("later", retry_after="1h")),
    "errno": lambda: _raises(OSError(28, "No space left on device")),
    "unknown": lambda: _raises(ValueError("a\ud800b\0c")),
    "exit": lambda: sys.exit(3),
    "result": lambda: object(),
    "memory": lambda: _raises(MemoryError()),
}
for _name, _body in FAILURES.items():
    app.task(f"{_name} inline", retry=RetryPolicy(2, Fixed("1h")), isolate=False)(_body)
    app.task(f"{_name} isolated", retry=RetryPolicy(2, Fixed("1h")), isolate=True)(_body)


def _started() -> None:
    Path("started").write_text(str(os.getpid()))


def _cleaned() -> None:
    Path("cleaned").write_text(f"{attempt().cancelled} {attempt().lost}")


def _wait_for(file: str) -> None:
    while not Path(file).exists():
        time.sleep(0.01)
