"""The oracle checks redrives: each matched job is moved at most once, and the counts match a recount."""

from collections.abc import Callable

from mulligan.records.redrive import Redrive, RedriveState
from mulligan.values.moment import microseconds
from simulator.broken import require
from simulator.lives import Life, Lives
from simulator.server import Call, Entry, ObservedStore

ENDS = {RedriveState.DONE: "redrive.finished", RedriveState.STOPPED: "redrive.stopped"}
NAMES = {RedriveState.DONE: "a redrive is done", RedriveState.STOPPED: "a redrive stops itself"}


class RedriveWatch:
    def __init__(
        self,
        reached: Callable[[str], None],
        *,
        follow: Callable[[Call, Entry], Life],
        opened: Callable[[Call, Entry], None],
        now: Callable[[], int],
        store: ObservedStore,
        lives: Lives,
    ) -> None:
        self._reached = reached
        self._follow = follow
        self._open = opened
        self._now = now
        self._store = store
        self._lives = lives
        self._known: dict[str, Redrive] = {}
        self._retried: dict[str, list[str]] = {}
        """The jobs that each of them has moved, as the log tells."""

    @property
    def going(self) -> list[Redrive]:
        """Those that wait for no answer, only for a worker."""
        return [redrive for redrive in self._known.values() if redrive.state is RedriveState.RUNNING]

    def begun(self, call: Call, entries: list[Entry]) -> None:
        redrive: Redrive = call.answer
        if redrive.id in self._known:
            require(not entries, "a redrive that was there already was begun again")
            require(redrive.request_id == call.asked.request_id, "another redrive was returned")
            self._reached("a redrive is begun twice with one request id")
            return
        require([entry.type for entry in entries] == ["redrive.started"], "a redrive began without a word")
        require(redrive.id == call.asked.id, "another redrive was returned")
        self._known[redrive.id] = redrive
        self._retried[redrive.id] = []

    def cancelled(self, call: Call, entries: list[Entry]) -> None:
        redrive: Redrive = call.answer
        before = self._known[redrive.id]
        was_over = before.state.is_over
        require([entry.type for entry in entries] == ([] if was_over else ["redrive.cancelled"]), "told wrongly")
        require(redrive.state is (before.state if was_over else RedriveState.CANCELLED), "it was not cancelled")
        self._known[redrive.id] = redrive
        if not was_over:
            self._reached("a redrive is cancelled")

    def advanced(self, call: Call, entries: list[Entry]) -> None:
        asked, after = call.asked, call.answer
        before = self._known[asked.id]
        if after is None:
            require(not entries, "another was faster, and it wrote all the same")
            require(asked.course.version < before.course.version or before.state.is_over, "no other process was faster")
            self._reached("of two that carry on a redrive one writes")
            return
        require(not before.state.is_over, "a redrive went on after its end")
        require(asked.course.version == before.course.version, "written from an older version")
        for entry in entries:
            self._told(call, entry, after)
        self._known[after.id] = after
        self._compare(before, after)

    def _told(self, call: Call, entry: Entry, after: Redrive) -> None:
        if not entry.job:
            require(entry.type == ENDS.get(after.state), f"{entry.type} of a redrive that is {after.state}")
            self._reached(NAMES[after.state])
            return
        if entry.type != "job.retry_requested" and "redrive" not in entry.data:
            self._open(call, entry)
            return
        if after.verb in ("cancel", "forget"):
            self._cancelled(call, entry, after)
            return
        life = self._follow(call, entry)
        require(entry.data.get("redrive") == after.id, "the log names another redrive")
        require(entry.job not in self._retried[after.id], f"{life.name} was retried twice by one redrive")
        require(life.over_at <= microseconds(after.began_at), f"{life.name} failed after the redrive began")
        require(after.owner in (None, life.owner), f"{life.name} belongs to another owner")
        require(after.filter.kind in (None, life.kind), f"{life.name} is of another kind")
        self._retried[after.id].append(entry.job)
        life.start_again(call.now)
        self._reached("a redrive retries a job")

    def _cancelled(self, call: Call, entry: Entry, after: Redrive) -> None:
        life = self._follow(call, entry)
        require(entry.type in ("job.cancelled", "job.cancel_requested"), f"{entry.type} by a bulk cancel")
        is_first = entry.job not in self._retried[after.id]
        # A job of a forgotten owner that is retried meanwhile is cancelled again.
        require(is_first or after.verb == "forget", f"{life.name} was cancelled twice by one operation")
        require(after.owner in (None, life.owner), f"{life.name} belongs to another owner")
        require(after.filter.owner in (None, life.owner), f"{life.name} belongs to another owner")
        require(after.filter.kind in (None, life.kind), f"{life.name} is of another kind")
        self._retried[after.id].append(entry.job)
        if life.state == "running" and life.wish_at is None:
            life.wish_at = self._now()
        self._reached("a bulk operation cancels a job")

    def forgot(self, call: Call, entries: list[Entry]) -> None:
        """Only ended jobs of the owner are deleted; at the end nothing else about it is left."""
        asked, after, stored = call.asked, call.answer, self._store.job_ids()
        before, owner = self._known[asked.id], asked.filter.owner
        gone = [life for job, life in self._lives.by_id.items() if job not in stored]
        for life in gone:
            require(life.owner == owner and life.is_over, f"{life.name} ({life.state}) of {life.owner!r} was deleted")
            self._lives.delete(life)
            self._reached("a job is deleted with its owner")
        if after is None:
            require(not entries and not gone, "nothing was to be done, and it wrote all the same")
            return
        require(not before.state.is_over, "an owner was forgotten after the end")
        require(asked.course.version == before.course.version, "written from an older version")
        require(after.purged == before.purged + len(gone), f"{after.purged} deleted, by a recount {len(gone)} more")
        self._known[after.id] = after
        ends = [ENDS[after.state]] if after.state.is_over else []
        require([entry.type for entry in entries] == ends, "told wrongly")
        if after.state.is_over:
            self._forgotten(after, owner)

    def _forgotten(self, after: Redrive, owner: str) -> None:
        left = [life for life in self._lives.by_id.values() if life.owner == owner]
        require((after.because is None) == (not left), f"{len(left)} jobs of {owner!r} are left, told: {after.because}")
        require(bool(left) or not self._store.number_of_events(owner), f"events of {owner!r} are left")
        self._reached("an owner is forgotten")

    def _compare(self, before: Redrive, after: Redrive) -> None:
        require(after.retried == len(self._retried[after.id]), "the count of retried jobs is wrong")
        if before.state is RedriveState.CANARY and after.retried > after.canary:
            has_passed = after.canary - after.succeeded <= after.abort_above * after.canary
            require(has_passed and after.state is not RedriveState.CANARY, "others went with the canaries")
        if after.state is RedriveState.DONE:
            require(after.looked_at >= after.matched, "a matched job was neither retried nor skipped")
        if sum(after.skipped.values()) > sum(before.skipped.values()):
            self._reached("a redrive skips a job")
        if before.course.held_by not in (None, after.course.held_by):
            self._reached("a redrive is carried on by another worker")
        if (before.state, after.state) == (RedriveState.CANARY, RedriveState.STOPPED):
            self._reached("a redrive is stopped by its canaries")
        if (before.state, after.state) == (RedriveState.CANARY, RedriveState.RUNNING):
            self._reached("a redrive lets its canaries go first")
