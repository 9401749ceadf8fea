"""Many jobs that become due at once."""

from pathlib import Path

import pytest

from mulligan import App
from mulligan.store.promote import PROMOTE_PASS, PROMOTE_PASSES

MANY = PROMOTE_PASS * (PROMOTE_PASSES + 3)


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(f"sqlite:///{tmp_path}/jobs.db")


def test_the_first_run_before_all_are_promoted_and_none_is_left(app: App) -> None:
    still_waiting: list[int] = []

    @app.task
    async def send() -> None:
        if not still_waiting:
            still_waiting.append(app.counts(by="state").groups.get("waiting", 0))

    app.enqueue_many(send.options(delay="1ms").bind() for _ in range(MANY))
    app.run_until_idle(timeout="60s", concurrency=100)
    assert still_waiting[0] > 0
    assert app.counts(by="state").groups == {"succeeded": MANY}
