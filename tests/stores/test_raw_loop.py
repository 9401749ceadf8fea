"""The upper bound of the benchmark follows the statements of the store: it must not fall behind them."""

import psycopg
from bench.peers import raw_loop
from postgres_server import PostgresServer

from mulligan import App, State


def test_the_bare_loop_claims_and_settles_our_own_jobs(server: PostgresServer) -> None:
    url = server.fresh_database("raw_loop")
    with App(url) as app:
        app.migrate()

        @app.task
        async def succeed(number: int) -> None: ...

        jobs = app.enqueue_many(succeed.bind(number) for number in range(3))
        with psycopg.connect(url, autocommit=True) as connection:
            claimed = raw_loop.claim(connection, 1)
            raw_loop.settle(connection, 1, claimed)
            assert raw_loop.claim(connection, 2) == []
        assert claimed == [(job.id, 1) for job in jobs]
        assert [app.job(job.id).state for job in jobs] == [State.SUCCEEDED] * 3
