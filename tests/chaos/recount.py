"""Counters are a recount: what is stored of batches, limits, budgets, services and turns is what jobs and log say."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from chaos.app import LIMITED_OWNER, LIMITS, PROBES
from chaos.evidence_index import EvidenceIndex
from chaos.ledger import Run
from conformance.invariants import check_batch
from mulligan.lifecycle import (
    BATCH_PUBLISHED,
    BATCH_REOPENED,
    BATCH_SETTLED,
    SERVICE_CLOSED,
    SERVICE_FORCED,
    SERVICE_HALF_OPENED,
    SERVICE_OPENED,
    State,
)
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.service.window import SLOTS, CallCounts
from mulligan.values.moment import microseconds

SERVICE_CHANGES = (SERVICE_OPENED, SERVICE_HALF_OPENED, SERVICE_CLOSED, SERVICE_FORCED)


# Batches


def batches_count_their_members(index: EvidenceIndex) -> Iterator[str]:
    members = Counter((job.batch, job.state) for job in index.jobs.values())
    for batch in index.counters.batches:
        try:
            check_batch(batch, {state: members[batch.id, state] for state in State})
        except AssertionError as error:
            yield f"{batch} has {[(state.value, members[batch.id, state]) for state in State]}: {error}"
        if not batch.state.is_settled:
            yield f"{batch} is not settled"


def each_generation_of_a_batch_is_settled_once(index: EvidenceIndex) -> Iterator[str]:
    told: dict[str, list[Event]] = defaultdict(list)
    for event in index.evidence.events:
        if event.type in (BATCH_PUBLISHED, BATCH_REOPENED, BATCH_SETTLED):
            told[event.data["batch"]].append(event)
    for batch in index.counters.batches:
        types = Counter(event.type for event in told[batch.id])
        settled = sorted(event.data["generation"] for event in told[batch.id] if event.type == BATCH_SETTLED)
        if settled != list(range(1, batch.generation + 1)) or types[BATCH_REOPENED] != batch.generation - 1:
            yield f"batch {batch.id} of generation {batch.generation} was settled in {settled}, and {dict(types)}"
        if types[BATCH_PUBLISHED] != 1:
            yield f"batch {batch.id} was published {types[BATCH_PUBLISHED]} times"


def each_settling_is_followed_once(index: EvidenceIndex) -> Iterator[str]:
    followers = Counter(job.result for job in index.jobs.values() if job.kind == "after")
    generations = {batch.id: batch.generation for batch in index.counters.batches}
    for batch, is_followed in index.evidence.published.items():
        if batch not in generations:
            yield f"batch {batch} was published and is lost"
        elif followers[batch] != (wanted := generations[batch] if is_followed else 0):
            yield f"batch {batch} was followed by {followers[batch]} jobs, not by {wanted}"


# Limits and budgets


def no_limit_was_exceeded(index: EvidenceIndex) -> Iterator[str]:
    for subject, most in LIMITS.items():
        concerned = _concerned(subject)
        if (found := at_once(index, (run for run in index.held_runs if concerned(index.jobs[run.job])))) > most:
            yield f"{found} jobs of {subject} ran at once, {most} may"


def places_are_counted(index: EvidenceIndex) -> Iterator[str]:
    """Slots are taken by ready and running jobs: when all jobs are over, none is taken."""
    live = [job for job in index.jobs.values() if job.state in (State.QUEUED, State.RUNNING)]
    if {f"{limit.what}/{limit.name}" for limit in index.counters.limits} != set(LIMITS):
        yield f"the limits in force are {index.counters.limits}"
    for limit in index.counters.limits:
        subject = f"{limit.what}/{limit.name}"
        if limit.taken != (found := sum(map(_concerned(subject), live))) or limit.most != LIMITS.get(subject):
            yield f"{limit}: {found} jobs have a place"


def what_was_spent_is_the_logs(index: EvidenceIndex) -> Iterator[str]:
    """Every retry was charged to its owner's budget once, whichever process was killed meanwhile."""
    retries = sum(event.type == "job.retried" for event in index.evidence.events if event.owner == LIMITED_OWNER)
    spent = Counter[int]()
    for (owner, period), number in index.counters.spending.items():
        spent[len(period)] += number
        if owner != LIMITED_OWNER:
            yield f"{owner} has no budget and spent {number}"
    if spent != {len("2026-03"): retries, len("2026-03-01"): retries}:
        yield f"{retries} retries of {LIMITED_OWNER} were admitted, and {index.counters.spending} were counted"


def _concerned(subject: str) -> Callable[[Job[object]], bool]:
    what, _, name = subject.partition("/")
    return lambda job: (job.kind if what == "kind" else job.owner) == name


def at_once(index: EvidenceIndex, runs: Iterable[Run]) -> int:
    """How many of these ran at the same time at most, by the ledger, as long as they had their leases."""
    steps = [step for run in runs for step in ((run.began, 1), (max(run.began, index.held_until(run)), -1))]
    number = most = 0
    for _, step in sorted(steps):
        number += step
        most = max(most, number)
    return most


# The service


def a_service_gets_no_more_probes_than_permits(index: EvidenceIndex) -> Iterator[str]:
    calls = [run for run in index.held_runs if index.jobs[run.job].kind == "calling"]
    for change, following in pairwise([*_changes(index), None]):
        if change is None or change.type != SERVICE_HALF_OPENED:
            continue
        begin, end = change.at.timestamp(), following.at.timestamp() if following else float("inf")
        probes = [run for run in calls if begin <= run.claimed / 1e6 and run.began < end]
        if (found := at_once(index, probes)) > PROBES:
            yield f"{found} probes at once after {change.at}, {PROBES} may"


def _changes(index: EvidenceIndex) -> list[Event]:
    return [event for event in index.evidence.events if event.type in SERVICE_CHANGES]


def call_results_of_a_service_are_those_of_the_log(index: EvidenceIndex) -> Iterator[str]:
    """In the last epoch each successful call was counted once, by the worker that settled it."""
    for worker, tally in index.counters.tallies.items():
        wanted = _good_calls(index, worker, tally)
        # Older call results are dropped.
        if tally.epoch != index.counters.epoch or max(wanted, default=0) - min(wanted, default=0) >= SLOTS:
            continue
        if sum(slot.ok for slot in tally.slots) != len(wanted):
            yield f"{worker} counted {tally.slots} good calls of epoch {tally.epoch}; the log has {sorted(wanted)}"


def _good_calls(index: EvidenceIndex, worker: str, tally: CallCounts) -> list[int]:
    """In which stretch of time each of them was settled."""
    jobs = [id_ for id_, epoch in index.counters.epochs.items() if epoch == tally.epoch]
    ends = [event for id_ in jobs for event in index.events[id_] if event.type == "job.succeeded"]
    return [microseconds(end.at) // tally.width for end in ends if end.data["worker"] == worker]


# The fair queue


def turns_are_those_of_the_jobs(index: EvidenceIndex) -> Iterator[str]:
    """The rank of a queue is the highest that was claimed, that of an owner is the rank of its last job."""
    ranks, jobs = index.counters.ranks, index.jobs
    highest = max((rank for id_, rank in ranks.items() if jobs[id_].attempt), default=0)
    if any(rank != highest for rank in index.counters.turns.values()):
        yield f"the fair queue is at {index.counters.turns}; {highest} was claimed"
    for owner, rank in index.counters.shares.items():
        if rank != (last := max(rank for id_, rank in ranks.items() if jobs[id_].owner == owner)):
            yield f"{owner} is at {rank}, its last job at {last}"


RECOUNTS: tuple[Callable[[EvidenceIndex], Iterator[str]], ...] = (
    batches_count_their_members,
    each_generation_of_a_batch_is_settled_once,
    each_settling_is_followed_once,
    no_limit_was_exceeded,
    places_are_counted,
    what_was_spent_is_the_logs,
    a_service_gets_no_more_probes_than_permits,
    call_results_of_a_service_are_those_of_the_log,
    turns_are_those_of_the_jobs,
)


def reached(index: EvidenceIndex) -> dict[str, int]:
    """How often each case happened: a promise that was not tested proves nothing."""
    types = Counter(event.type for event in index.evidence.events)
    waited = [event for event in index.evidence.events if event.data.get("waiting_for") == "limit"]
    narrow = [run for run in index.held_runs if index.jobs[run.job].kind == "narrow"]
    return {
        "batches settled": types[BATCH_SETTLED],
        "batches opened again": types[BATCH_REOPENED],
        "jobs after a batch": sum(job.kind == "after" for job in index.jobs.values()),
        "jobs that had to wait for a place": len(waited),
        "jobs of a narrow kind at once": at_once(index, narrow),
        "retries paid by their owner": sum(index.counters.spending.values()) // 2,
        "times the service was held": types[SERVICE_OPENED],
        "calls of the service": len(index.counters.epochs),
        "jobs in the fair queue": len(index.counters.ranks),
    }
