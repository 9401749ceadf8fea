"""mulligan with its defaults."""

import sys

from bench.marks import given
from mulligan import App, Fixed, RetryPolicy

TRIED_AGAIN_AT_ONCE = RetryPolicy(max_attempts=5, backoff=Fixed(0))


def app(url: str) -> App:
    made = App(url)

    @made.task
    async def succeed(number: int) -> None:
        marks.succeed(number)

    @made.task(retry=TRIED_AGAIN_AT_ONCE)
    async def fail_twice(number: int) -> None:
        marks.fail_twice(number)

    return made


if __name__ == "__main__":
    marks = given()
    app(sys.argv[1]).run()
