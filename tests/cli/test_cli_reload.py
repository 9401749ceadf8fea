"""`mulligan worker --reload` with real processes and real files."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from live import SOON, eventually
from mulligan import App, State
from mulligan.cli.reload import folders_of, sources

SOURCE = """
import os, time
from mulligan import App
app = App("sqlite:///jobs.db")

@app.task
def answer() -> str:
    return {answer!r}

@app.task
def slow() -> None:
    open("started", "w").close()
    while not os.path.exists("finish"):
        time.sleep(0.01)
"""


class Reloading:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begun = int(time.time()) * 1_000_000_000
        self._saves = count(1)
        self.write("one")
        self.app = App(f"sqlite:///{folder}/jobs.db")
        self.app.task("answer")(lambda: "")
        self.app.task("slow")(lambda: None)
        with (folder / "out").open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mulligan", "worker", "shop:app", "--reload", "--verbose"],
                cwd=folder, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return (self.folder / "out").read_text()

    def write(self, answer: str) -> None:
        self._replace(SOURCE.format(answer=answer))

    def spoil(self) -> None:
        self._replace("def broken(:\n")

    def _replace(self, text: str) -> None:
        # At once, as editors do, and within one second: the compiled code of the previous file would look up to date.
        (self.folder / "new").write_text(text)
        saved = self.begun + next(self._saves)
        os.utime(self.folder / "new", ns=(saved, saved))
        (self.folder / "new").rename(self.folder / "shop.py")

    def answer(self) -> object:
        return self.app.wait(self.app.tasks["answer"].enqueue(), timeout=SOON)

    def waits_for(self, words: str, times: int = 1) -> None:
        eventually(lambda: self.said.count(words) >= times)


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[Reloading]:
    made = Reloading(tmp_path)
    with made.app:
        try:
            yield made
        finally:
            # The warden ends the worker.
            made.process.kill()
            made.process.wait()


def test_a_worker_restarts_with_changed_sources_and_ends_on_ctrl_c(reloading: Reloading) -> None:
    reloading.waits_for("Worker for")
    assert reloading.answer() == "one"
    slow = reloading.app.tasks["slow"].enqueue()
    eventually((reloading.folder / "started").exists)

    reloading.write("two")
    reloading.waits_for("shop.py changed: restarting the worker")
    reloading.waits_for("Worker for", times=2)
    assert reloading.answer() == "two"
    # The running job was released, and no attempt was counted.
    assert (reloading.app.job(slow.id).failures, reloading.app.job(slow.id).losses) == (0, 0)

    (reloading.folder / "finish").touch()
    eventually(lambda: reloading.app.job(slow.id).state is State.SUCCEEDED)
    reloading.spoil()
    reloading.waits_for("SyntaxError")
    reloading.waits_for("the worker has ended; it restarts when a source file changes")
    reloading.write("three")
    reloading.waits_for("Worker for", times=3)
    assert reloading.answer() == "three"
    reloading.waits_for("(answer) succeeded", times=3)

    reloading.process.send_signal(signal.SIGINT)
    assert reloading.process.wait(timeout=SOON) == 0


def test_a_worker_does_not_outlive_a_reloader_that_is_killed(reloading: Reloading) -> None:
    reloading.waits_for("Worker for")
    assert reloading.answer() == "one"
    reloading.process.kill()
    eventually(lambda: not reloading.app.store.workers())


def test_only_sources_of_the_project_are_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.py", "sub/b.py", "mulligan.toml", "c.txt", ".git/d.py", "env/lib/e.py", "__pycache__/f.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    found = {os.path.relpath(path, tmp_path) for path in sources([tmp_path])}
    assert found == {"a.py", "sub/b.py", "mulligan.toml"}
    monkeypatch.chdir(tmp_path / "sub")
    assert folders_of("../a.py:app") == [tmp_path / "sub", tmp_path]
    assert folders_of("shop:app") == folders_of(None) == [tmp_path / "sub"]
