"""The oracle checks rejected calls and released keys."""

from mulligan.errors import JobNotFound, KeyInUse
from simulator.broken import require
from simulator.enqueues import EnqueueWatch
from simulator.lives import Lives
from simulator.server import Call, Entry, ObservedStore
from simulator.sometimes import Reached


class RequestWatch:
    def __init__(self, reached: Reached, store: ObservedStore, lives: Lives, enqueues: EnqueueWatch) -> None:
        self._reached = reached.note
        self._store = store
        self._lives = lives
        self._enqueues = enqueues
        self._done: set[str] = set()
        """The requests that released a key."""

    def rejected(self, call: Call, entries: list[Entry]) -> None:
        """A rejected call is a failed job from the start, once, and no job follows it."""
        new, job = call.asked, call.answer
        require(job.id == new.id, "another job was returned")
        if not entries:
            require(job.is_duplicate and new.id in self._lives.by_id, "a rejected call left no trace in the log")
            return
        types = [(entry.type, entry.job) for entry in entries]
        require(types == [("job.enqueued", new.id), ("job.failed", new.id)], f"a rejected call wrote {types}")
        life = self._enqueues.add(new, call.now, self._store.ranks([new.id])[new.id])
        self._lives.move(life, "failed")
        life.over_at = call.now
        self._reached("a call is rejected")

    def released(self, call: Call, entries: list[Entry]) -> None:
        """Only a job that is over gives up its key, once."""
        life = self._lives.by_id.get(call.asked.job)
        if call.error is not None:
            require(not entries, "refused, and written to the log all the same")
            require(isinstance(call.error, JobNotFound) == (life is None), f"failed with {call.error!r}")
            require(not isinstance(call.error, KeyInUse) or (life is not None and not life.is_over), "the job is over")
            is_refusal = isinstance(call.error, KeyInUse)
            require(not (is_refusal and call.asked.id in self._done), "a repeated request was answered otherwise")
            return
        if call.asked.id in self._done:
            require(not entries, "a repeated request released a key again")
            return
        require(life is not None and life.is_over, "the key of a job that is not over was released")
        assert life is not None
        if not entries:
            require(life.key is None, f"{life.name} keeps its key without a word")
            return
        types = [(entry.type, entry.job) for entry in entries]
        require(types == [("job.key_released", life.id)] and life.key is not None, f"{life.name}: {types}")
        life.key = None
        self._done.add(call.asked.id)
        self._reached("a key is released")
