"""What must happen at least once in a run of many seeds. A simulation that never reaches it proves nothing."""

from collections import Counter

SOMETIMES = (
    "a late result is refused",
    "a claim repeated after a lost reply returns the same leases",
    "a claim that came late is adopted",
    "a settle is repeated",
    "two settles of a worker are under way at once",
    "a lost lease is released",
    "a lost job is claimed again in time",
    "a stuck job is put back",
    "a stuck job is settled as timed out",
    "a job fails at the limit of losses",
    "a cancelled attempt stops",
    "success wins over a wish to cancel",
    "a wish to cancel wins over a retry",
    "a wish to cancel is carried out by a reclaimer",
    "an enqueue is repeated",
    "a job is its twin",
    "a deadline passes before a job can run",
    "a retry would come after the deadline",
    "a worker is stopped during an outage",
    "a worker is stopped twice",
    "a worker drains in peace",
    "a quiet beat holds a reclaimer back",
    "a lease is extended after it expired",
    "a keeper hears that a lease is lost",
    "a process is killed while its request is on the wire",
    "a process is killed while the reply is on the wire",
    "a process is stopped for longer than its lease",
    "a reclaimer's settle meets a lease that was extended",
    "the store's clock steps back",
    "the store's clock steps forward",
    "a job runs long after its first lease would have ended",
    "a task does not stop when told to",
    "a worker is worn out",
    "a job times out",
    "a job fails for good",
    "a job is snoozed by its task",
    "a job is snoozed by hand",
    "a job is retried by hand",
    "a job is run now by hand",
    "a move by hand is repeated",
    "a move by hand is refused",
    "two attempts of a job overlap after a lost lease",
    "a job of an unknown kind is released by a reclaimer",
    "a service opens",
    "a service is probed",
    "a service closes again",
    "a service bears the failure of a call",
    "a failed probe waits for the others to be tried",
    "a request is carried out after its caller gave up",
    "a redrive is begun twice with one request id",
    "a redrive retries a job",
    "a redrive skips a job",
    "a bulk operation cancels a job",
    "a redrive is carried on by another worker",
    "of two that carry on a redrive one writes",
    "a redrive lets its canaries go first",
    "a redrive stops itself",
    "a redrive is cancelled",
    "a redrive is done",
    "a batch is published",
    "a batch is published twice",
    "a batch is settled",
    "a batch is opened again",
    "a batch is aborted",
    "a batch expires",
    "a batch is partly done",
    "a redrive is stopped by its canaries",
    "a job waits for a slot",
    "a queued job is blocked again",
    "a fair turn is taken",
    "a submission comes too fast",
    "a budget is out",
    "a retry waits for the budget of its service",
    "a retry is paced",
    "a job of a service is refused unrun",
    "a probe job runs",
)


class Reached(Counter[str]):
    """How often each of them was reached."""

    def note(self, point: str) -> None:
        assert point in SOMETIMES, point
        self[point] += 1

    @property
    def missing(self) -> list[str]:
        return [point for point in SOMETIMES if not self[point]]
