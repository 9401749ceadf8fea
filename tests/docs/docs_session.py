"""Runs the steps of one page as a reader would: one folder, one Python session, one shell after the other.

A program of its own, so that nothing of a page reaches another. Reads steps as JSON from the file it is given. In
commands ID stands for what the session's `ID` is, or for the id of the newest job.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

SECONDS = 120
SHOWN = 3_000


class Terminal:
    """One shell for all commands of a page: what it sets, and what it starts, stays."""

    END = "the block is over"

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["bash", "-e"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.group = self._shell.pid

    def run(self, code: str) -> str:
        """What the commands print, and what runs in the background meanwhile."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{code}\nprintf '\\n%s\\n' '{self.END}'\n")
        self._shell.stdin.flush()
        too_long = threading.Timer(SECONDS, os.killpg, (self.group, signal.SIGKILL))
        too_long.start()
        said = []
        for line in self._shell.stdout:
            if line == f"{self.END}\n":
                too_long.cancel()
                return "".join(said)
            said.append(line)
        too_long.cancel()
        raise AssertionError(f"exit status {self._shell.wait()}\n{''.join(said)[-SHOWN:]}")

    def require_the_end(self) -> None:
        """A reader who has come to the end has nothing left running."""
        if left := self.run("jobs -r").strip():
            raise AssertionError(f"still running at the end of the page:\n{left}")


class Session:
    def __init__(self, page: str, replaced: dict[str, str], *, is_one_terminal: bool) -> None:
        self._page = page
        self._replaced = replaced
        self._module = ModuleType("page")
        self._said = ""
        self._groups: list[int] = []
        binary = Path("bin").absolute()
        binary.mkdir()
        for name, command in {"mulligan": "-m mulligan ", "python": ""}.items():
            (binary / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {command}"$@"\n')
            (binary / name).chmod(0o755)
        os.environ["PATH"] = f"{binary}:{os.environ['PATH']}"
        # A page is written for no terminal in particular.
        os.environ.pop("COLUMNS", None)
        self._terminal = Terminal() if is_one_terminal else None
        if self._terminal:
            self._groups.append(self._terminal.group)
        sys.modules["page"] = self._module
        sys.path.insert(0, str(Path.cwd()))

    def run(self, step: dict[str, Any]) -> None:
        code = step["code"]
        for example, real in self._replaced.items():
            code = code.replace(example, real)
        match step["what"]:
            case "python":
                self._python(code, step["line"])
            case "sh":
                self._shell(code)
            case "sql":
                self._sql(code)
            case "file":
                Path(step["name"]).parent.mkdir(parents=True, exist_ok=True)
                Path(step["name"]).write_text(code)
            case "output":
                self._compare(code)
            case "fails":
                self._fail(step, code)

    def _fail(self, step: dict[str, Any], code: str) -> None:
        try:
            self._shell(code) if step["name"] == "sh" else self._python(code, step["line"])
        except Exception as error:
            self._said += f"{type(error).__name__}: {error}\n"
        else:
            raise AssertionError("it should have failed")

    def _python(self, code: str, line: int) -> None:
        # Lines as in the page, so that a traceback leads there.
        compiled = compile("\n" * line + code, self._page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            if compiled.co_flags & inspect.CO_COROUTINE:
                asyncio.run(eval(compiled, self._module.__dict__))
            else:
                exec(compiled, self._module.__dict__)
        self._said = output.getvalue()

    def _shell(self, code: str) -> None:
        if self._terminal is not None:
            self._said = self._terminal.run(code)
            return
        if re.search(r"\bID\b", code):
            code = re.sub(r"\bID\b", self._id(), code)
        with Path("said").open("w+") as said:
            # What a block exports holds for those after it.
            shell = subprocess.Popen(
                ["bash", "-e", "-c", f"{code}\nenv -0 > environment"],
                stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            self._groups.append(shell.pid)
            ended = shell.wait(SECONDS)
            said.seek(0)
            self._said = said.read()
        if ended:
            raise AssertionError(f"exit status {ended}\n{self._said[-SHOWN:]}")
        lines = Path("environment").read_bytes().decode().split("\0")
        os.environ.update(dict(line.split("=", 1) for line in lines if "=" in line))

    def _id(self) -> str:
        if "ID" in self._module.__dict__:
            return str(self._module.__dict__["ID"])
        return str(self._module.__dict__["app"].jobs(limit=1).jobs[0].id)

    def _sql(self, code: str) -> None:
        import psycopg

        with psycopg.connect(os.environ["MULLIGAN_DATABASE_URL"]) as connection:
            connection.execute(code.encode())

    def _compare(self, expected: str) -> None:
        pattern = ".*?".join(re.escape(part) for part in expected.strip().split("…"))
        if not re.fullmatch(pattern, self._said.strip(), re.DOTALL):
            raise AssertionError(f"printed was:\n{self._said[-SHOWN:]}\ninstead of:\n{expected}")

    def finish(self) -> None:
        if self._terminal is not None:
            self._terminal.require_the_end()

    def close(self) -> None:
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def main(file: str) -> int:
    todo = json.loads(Path(file).read_text())
    session = Session(todo["page"], todo["replaced"], is_one_terminal=todo["is_one_terminal"])
    try:
        for step in todo["steps"]:
            try:
                session.run(step)
            except BaseException:
                print(f"{todo['page']}:{step['line']}: this block does not run\n{step['code']}", file=sys.stderr)
                traceback.print_exc()
                return 1
        session.finish()
        return 0
    finally:
        session.close()


if __name__ == "__main__":
    # Not through the interpreter's end: what a page started may still be waiting.
    code = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
