"""huey on SQLite, synchronous = FULL. Its bodies are plain functions."""

import os

from huey import SqliteHuey
from huey.api import TaskWrapper

from bench.marks import VARIABLE, given

FILE = "MULLIGAN_BENCH_HUEY"


def tasks(file: str) -> tuple[SqliteHuey, dict[str, TaskWrapper]]:
    huey = SqliteHuey("bench", filename=file, results=False, fsync=True)

    @huey.task(name="succeed")
    def succeed(number: int) -> None:
        marks.succeed(number)

    @huey.task(name="fail_twice", retries=5, retry_delay=0)
    def fail_twice(number: int) -> None:
        marks.fail_twice(number)

    return huey, {"succeed": succeed, "fail_twice": fail_twice}


if VARIABLE in os.environ and FILE in os.environ:
    # In the consumer, which finds its queue by the name of a module's variable.
    marks = given()
    consumed, _ = tasks(os.environ[FILE])
