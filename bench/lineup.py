"""Who is measured: the store, the settings, the environment and the parts of each."""

from dataclasses import dataclass

ENGINE = frozenset({"enqueue", "drain", "drain-two", "failing", "latency"})
BULK = ENGINE | {"bulk"}
OURS = BULK | {
    "batch",
    "due",
    "growth-empty",
    "growth-finished",
    "growth-future",
    "growth-held",
    "growth-owners",
    "growth-unhandled",
    "peak",
    "reading",
    "startup",
}


@dataclass(frozen=True)
class Entry:
    name: str
    module: str
    store: str
    """"postgres", "sqlite" or "redis"."""
    settings: str
    """The best that were found, or that its documentation advises."""
    parts: frozenset[str] = ENGINE
    environment: str = "peers"
    drained: int = 0
    """Jobs of a drain: some three seconds' worth."""
    failing: int = 0
    is_async: bool = True
    """Whether `enqueue` is called from asyncio."""
    lacks: str = ""
    """What mulligan does and it does not, where it is faster for that reason."""
    is_engine: bool = True
    """Whether it runs jobs, rather than only holding messages for a loop of ours."""
    help: tuple[str, ...] = ()
    """The command that prints its help."""

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("mulligan")

    @property
    def is_raw(self) -> bool:
        return self.name.startswith("raw")


LINEUP = (
    Entry(
        "mulligan-postgres",
        "mulligan_app",
        "postgres",
        "defaults, with uvloop (`mulligan[fast]`); asyncio tasks",
        parts=OURS | {"storm", "http"},
        environment="mulligan",
        drained=50_000,
        failing=6_000,
        help=("mulligan", "--help"),
    ),
    Entry(
        "pgqueuer",
        "pgqueuer_peer",
        "postgres",
        "asyncpg, uvloop, batch_size 500 (its default is 10), durable (its default)",
        parts=BULK | {"storm", "peak", "startup", "growth-empty", "growth-future"},
        drained=50_000,
        failing=2_000,
        lacks="it deletes a finished job",
        help=("pgq", "--help"),
    ),
    Entry(
        "procrastinate",
        "procrastinate_peer",
        "postgres",
        "concurrency 20, psycopg pool, LISTEN",
        parts=BULK | {"storm", "startup"},
        drained=1_600,
        failing=350,
        help=("procrastinate", "--help"),
    ),
    Entry(
        "oban",
        "oban_peer",
        "postgres",
        "limit 500, uvloop, Python 3.12; stager every 0.05 s where jobs fail (its default is 1 s)",
        parts=BULK,
        environment="oban",
        drained=8_000,
        failing=1_500,
    ),
    Entry(
        "dbos",
        "dbos_peer",
        "postgres",
        "polling every 0.05 s (its default is 1 s), no limit of concurrency; a failing step is retried in its process",
        drained=1_500,
        failing=500,
        is_async=False,
        help=("dbos", "--help"),
    ),
    Entry(
        "chancy",
        "chancy_peer",
        "postgres",
        "asyncio executor, concurrency 500, eager polling",
        parts=BULK,
        drained=6_000,
        failing=1_200,
    ),
    Entry("saq-postgres", "saq_peer", "postgres", "concurrency 20, uvloop", drained=1_000, failing=300),
    Entry(
        "pgmq",
        "pgmq_peer",
        "postgres",
        "a bare loop of ours: read_with_poll of 500 messages, delete_batch, set_vt(0) for a failed one",
        is_engine=False,
        parts=BULK | {"peak"},
        drained=40_000,
        failing=8_000,
        lacks="it is a message queue without a worker: no attempts, no errors, no history, a message is deleted",
    ),
    Entry(
        "raw-loop",
        "raw_loop",
        "postgres",
        "mulligan's own claim and settle statements, 500 jobs a call, one connection, no bodies",
        is_engine=False,
        parts=frozenset({"drain"}),
        environment="mulligan",
        drained=50_000,
    ),
    Entry(
        "raw-postgres",
        "raw_postgres",
        "postgres",
        "psycopg: INSERT of one row and commit; INSERT of 1,000 rows in one statement",
        is_engine=False,
        parts=frozenset({"enqueue", "bulk"}),
        is_async=False,
    ),
    Entry(
        "raw-fastapi",
        "raw_fastapi",
        "postgres",
        "a FastAPI route on uvicorn (httptools, uvloop) with a pool of asyncpg: INSERT of one row and commit",
        is_engine=False,
        parts=frozenset({"http"}),
        environment="fastapi",
    ),
    Entry(
        "mulligan-sqlite",
        "mulligan_app",
        "sqlite",
        "defaults (WAL, synchronous = FULL), with uvloop (`mulligan[fast]`); asyncio tasks",
        parts=OURS,
        environment="mulligan",
        drained=20_000,
        failing=6_000,
        help=("mulligan", "--help"),
    ),
    Entry(
        "huey-sqlite",
        "huey_peer",
        "sqlite",
        "WAL, fsync=True (synchronous = FULL), one thread, results off, shortest polling",
        parts=ENGINE | {"startup"},
        drained=5_000,
        failing=1_000,
        is_async=False,
        lacks="it removes a job before it runs it, so a crash loses the job in hand",
        help=("huey_consumer", "--help"),
    ),
    Entry(
        "litequeue",
        "litequeue_peer",
        "sqlite",
        "WAL, synchronous = NORMAL (its default); a bare loop of ours: pop, done",
        is_engine=False,
        drained=4_000,
        failing=1_500,
        is_async=False,
        lacks="it is a queue without a worker, and its last commits may be lost when the power fails (NORMAL)",
    ),
    Entry(
        "persist-queue",
        "persist_queue_peer",
        "sqlite",
        "SQLiteAckQueue, WAL, synchronous = FULL; a bare loop of ours: get, ack",
        is_engine=False,
        # A blocked get() does not see the put() of another process.
        parts=ENGINE - {"latency"},
        drained=5_000,
        failing=700,
        is_async=False,
        lacks="it is a queue without a worker, and ran jobs twice with two processes",
    ),
    Entry(
        "raw-sqlite",
        "raw_sqlite",
        "sqlite",
        "sqlite3, WAL, synchronous = FULL: INSERT of one row and commit; 1,000 rows in one transaction",
        is_engine=False,
        parts=frozenset({"enqueue", "bulk"}),
        is_async=False,
    ),
    Entry(
        "celery-prefork",
        "celery_peer",
        "redis",
        "prefork, 2 processes, prefetch multiplier 64, no results, no events",
        parts=ENGINE | {"startup"},
        drained=3_000,
        failing=350,
        is_async=False,
        help=("celery", "--help"),
    ),
    Entry(
        "celery-threads",
        "celery_peer",
        "redis",
        "8 threads, prefetch multiplier 64, no results, no events",
        drained=3_000,
        failing=350,
        is_async=False,
    ),
    Entry(
        "celery-solo",
        "celery_peer",
        "redis",
        "solo, prefetch multiplier 64, no results, no events",
        drained=3_000,
        failing=350,
        is_async=False,
    ),
    Entry(
        "rq-simple",
        "rq_peer",
        "redis",
        "SimpleWorker: no fork",
        parts=BULK | {"startup"},
        drained=800,
        failing=250,
        is_async=False,
        help=("rq", "--help"),
    ),
    Entry(
        "rq-fork",
        "rq_peer",
        "redis",
        "Worker: a process for each job (its default)",
        parts=BULK,
        drained=200,
        failing=60,
        is_async=False,
    ),
    Entry("dramatiq", "dramatiq_peer", "redis", "one process, 8 threads", drained=8_000, failing=700, is_async=False),
    Entry(
        "arq",
        "arq_peer",
        "redis",
        "max_jobs 500, poll_delay 0.01 s (its default is 0.5 s), no results, uvloop",
        environment="arq",
        drained=5_000,
        failing=1_500,
    ),
    Entry("saq-redis", "saq_peer", "redis", "concurrency 20, uvloop", drained=6_000, failing=1_000),
    Entry(
        "taskiq",
        "taskiq_peer",
        "redis",
        "RedisStreamBroker, one process, 100 tasks at once",
        drained=10_000,
        failing=2_000,
    ),
    Entry(
        "huey-redis",
        "huey_peer",
        "redis",
        "2 processes, results off, shortest polling",
        drained=12_000,
        failing=1_500,
        is_async=False,
        lacks="it removes a job before it runs it, so a crash loses the job in hand",
    ),
    Entry(
        "raw-redis",
        "raw_redis",
        "redis",
        "redis-py: SET",
        is_engine=False,
        parts=frozenset({"enqueue"}),
        is_async=False,
    ),
)
BY_NAME = {entry.name: entry for entry in LINEUP}
