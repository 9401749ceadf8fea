"""What is measured, one file a subject."""

from bench.measurement import Part
from bench.parts import drain, due, enqueue, growth, http, latency, reading, startup, storm

PARTS: dict[str, Part] = {
    "enqueue": enqueue.one_by_one,
    "bulk": enqueue.bulk,
    "drain": drain.one_worker,
    "drain-two": drain.two_workers,
    "batch": drain.batch,
    "failing": drain.failing,
    "latency": latency.latency,
    "storm": storm.storm,
    "http": http.post_jobs,
    "peak": drain.peak,
    "startup": startup.startup,
    "due": due.due_at_once,
    "growth-empty": growth.beside("empty"),
    "growth-future": growth.beside("future"),
    "growth-held": growth.beside("held"),
    "growth-unhandled": growth.beside("unhandled"),
    "growth-finished": growth.beside("finished"),
    "growth-owners": growth.many_owners,
    "reading": reading.reading,
}
