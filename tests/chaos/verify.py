"""What must hold when it is over. Each check compares the ledger, the log and the rows, and says what is wrong."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from chaos.app import MAX_ATTEMPTS
from chaos.evidence import Evidence
from chaos.evidence_index import EvidenceIndex
from chaos.ledger import Run
from chaos.plan import LEASE
from chaos.reader import written
from chaos.recount import RECOUNTS
from conformance.invariants import check_history, check_row
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import MAX_LOSSES, Job

FINAL_EVENTS = ("job.succeeded", "job.failed", "job.cancelled")
BY_HAND = TABLE[Move.MANUAL_RETRY, State.FAILED].event
LOST = "WORKER_LOST"
NOT_POSSIBLE_NOW = 5
SHOWN = 5

Check = Callable[[EvidenceIndex], Iterator[str]]


def accepted_jobs_are_there(index: EvidenceIndex) -> Iterator[str]:
    for job in set(index.evidence.accepted) - set(index.jobs):
        yield f"{job} was accepted and is lost"


def every_job_is_over(index: EvidenceIndex) -> Iterator[str]:
    for job in index.jobs.values():
        if not job.state.is_final:
            yield f"{job.id} is still {job.state}"


def rows_and_log_agree(index: EvidenceIndex) -> Iterator[str]:
    for job in index.jobs.values():
        try:
            check_row(job)
            check_history(job, index.events[job.id])
        except AssertionError as error:
            told = [(event.position, event.type, event.attempt, f"{event.at:%S.%f}") for event in index.events[job.id]]
            yield f"{job.id}: {error}; {told}"


def each_is_settled_once(index: EvidenceIndex) -> Iterator[str]:
    for (job, attempt), settles in index.settles.items():
        if len(settles) > 1:
            yield f"attempt {attempt} of {job} was settled by {[settle.data.get('by') for settle in settles]}"
    for job, events in index.events.items():
        if (
            job
            and (number := sum(event.type in FINAL_EVENTS for event in events)) != 1 + index.jobs[job].manual_retries
        ):
            yield f"{job} was finished {number} times"


def only_its_holder_settles_an_attempt(index: EvidenceIndex) -> Iterator[str]:
    for key, settles in index.settles.items():
        start = index.starts.get(key)
        for settle in settles:
            if start is None or settle.data["worker"] != start.data["worker"]:
                yield f"{settle.type} of {key} is by {settle.data['by']}, which did not hold it"
            elif not index.is_own(settle) and settle.code != LOST:
                yield f"{settle.type} of {key} is by {settle.data['by']}, which did not run it"


def each_claim_runs_once(index: EvidenceIndex) -> Iterator[str]:
    for key, number in Counter(run.key for run in index.evidence.runs).items():
        if number > 1:
            yield f"{key} ran {number} times"
    for run in index.evidence.runs:
        if not index.has_claim(run) and not index.is_undone(run):
            yield f"{run} has no claim in the log"
        if run.began < run.claimed / 1e6 - 0.05:
            yield f"{run} began before it was claimed"


def attempts_overlap_only_when_the_lease_was_lost(index: EvidenceIndex) -> Iterator[str]:
    by_job: dict[str, list[Run]] = defaultdict(list)
    for run in index.evidence.runs:
        by_job[run.job].append(run)
    for found in by_job.values():
        for run, following in pairwise(sorted(found, key=lambda run: run.began)):
            # A worker that was frozen between claim and start begins late, after another has its job.
            former = min(run, following, key=lambda run: run.attempt)
            if run.ended is not None and following.began < run.ended and not index.was_lost(former):
                yield f"{following} began while {run} ran, and {former} had its lease"


def what_was_settled_was_run(index: EvidenceIndex) -> Iterator[str]:
    """Nothing succeeds that did not return, nothing fails that did not raise."""
    for key, settles in index.settles.items():
        for settle in settles:
            if index.is_own(settle) and settle.type != "job.released":
                how = "returned" if settle.type == "job.succeeded" else "raised"
                if not any(run.how == how and index.has_claim(run) for run in index.runs[key]):
                    yield f"{settle.type} of {key}, but the ledger says {index.runs[key]}"


def jobs_end_as_they_must(index: EvidenceIndex) -> Iterator[str]:
    """Whatever happened to their workers: failures are the task's own, never more than allowed."""
    for job in index.jobs.values():
        if (found := _end(job)) != (wanted := _wanted(job)):
            yield f"{job.id} ({job.kind} {job.arguments}) ended as {found}, not as {wanted}"
        if job.failures > job.max_attempts:
            yield f"{job.id} failed {job.failures} times of {job.max_attempts}"


def _end(job: Job[Any]) -> tuple[Any, ...]:
    return (job.state, job.result, job.error_code, job.failures, job.crashes)


def _wanted(job: Job[Any]) -> tuple[Any, ...]:
    arguments = job.arguments
    if job.error_code == LOST:
        return (State.FAILED, None, LOST, job.failures if job.losses == MAX_LOSSES else "none before the tenth loss", 0)
    match job.kind:
        case "doomed":
            return (State.FAILED, None, "UNKNOWN", MAX_ATTEMPTS, 0)
        case "refused":
            return (State.FAILED, None, "NOT_WANTED", 1, 0)
        case "calling":
            return (State.SUCCEEDED, arguments["number"], None, job.failures, 0)
        case "after":
            return (State.SUCCEEDED, arguments["batch"], None, 0, 0)
        case _:
            return (State.SUCCEEDED, arguments["number"], None, arguments.get("failures", 0), 0)


def counters_are_the_logs(index: EvidenceIndex) -> Iterator[str]:
    """Lost attempts are charged as losses and never as failures."""
    for job in index.jobs.values():
        failures = losses = 0
        for event in index.events[job.id]:
            if event.type in ("job.succeeded", "job.retried"):
                losses = 0
            elif event.type == BY_HAND:
                failures = losses = 0
            losses += event.code == LOST
            failures += event.type in ("job.retried", "job.failed") and event.code != LOST
        if (job.failures, job.losses) != (failures, losses):
            yield f"{job.id} counts {job.failures} failures, {job.losses} losses; the log {failures}, {losses}"


def no_result_is_both_refused_and_accepted(index: EvidenceIndex) -> Iterator[str]:
    for refusal in index.refusals:
        # After a crash that undid its claim a worker may have run the same number twice: one result is the late one.
        if any(not index.has_claim(run) for run in index.runs[refusal.job, refusal.attempt]):
            continue
        for settle in index.settles[refusal.job, refusal.attempt]:
            if index.is_own(settle) and settle.data["worker"] == refusal.data["worker"]:
                yield f"attempt {refusal.attempt} of {refusal.job} was refused and accepted"


def leases_of_the_living_are_left_alone(index: EvidenceIndex) -> Iterator[str]:
    """A worker loses its jobs when it was killed, frozen or starved, not because a reclaimer looked too early."""
    for (job, attempt), settles in index.settles.items():
        for settle in settles:
            worker, at = settle.data["worker"], settle.at.timestamp()
            if not index.is_own(settle) and not _was_silent(index, worker, at):
                yield f"attempt {attempt} of {job} was taken at {at:.3f} from {worker}, which was alive"


def _was_silent(index: EvidenceIndex, worker: str, at: float) -> bool:
    life = index.lives.get(worker)
    if life is None or (life.killed is not None and life.killed <= at) or life.was_frozen(at - LEASE - 1, at):
        return True
    # Under full load a worker speaks many times a second; one that did not was starved, or cut off.
    begin = at - LEASE
    signs = [begin, *(sign for sign in index.signs[worker] if begin < sign < at), at]
    return max(later - earlier for earlier, later in pairwise(signs)) >= LEASE / 3


def the_log_has_no_gaps(index: EvidenceIndex) -> Iterator[str]:
    """A reader that followed the log by cursor saw exactly the events that are there now."""
    seen, there = index.evidence.read, [written(event) for event in index.evidence.events]
    if seen != there:
        missing, extra = set(there) - set(seen), set(seen) - set(there)
        yield f"the reader missed {sorted(missing)[:SHOWN]} and saw {sorted(extra)[:SHOWN]} (of {len(there)})"


def workers_do_not_end_by_themselves(index: EvidenceIndex) -> Iterator[str]:
    if any(index.evidence.statuses):
        yield f"workers ended with {index.evidence.statuses}"
    worked = {id(life) for life in index.lives.values()}
    for life in index.evidence.lives:
        status = life.process.returncode
        # One that finds no store when it starts says so and ends; once it works, nothing ends it.
        if (life.killed is None and status not in (0, NOT_POSSIBLE_NOW)) or (status > 0 and id(life) in worked):
            yield f"worker {life.pid} ended by itself with {status}"
    if (place := index.evidence.log.find("Traceback")) >= 0:
        yield f"a worker's log has: {index.evidence.log[max(0, place - 300) : place + 2_000]}"


CHECKS: tuple[Check, ...] = (
    accepted_jobs_are_there,
    every_job_is_over,
    rows_and_log_agree,
    each_is_settled_once,
    only_its_holder_settles_an_attempt,
    each_claim_runs_once,
    attempts_overlap_only_when_the_lease_was_lost,
    what_was_settled_was_run,
    jobs_end_as_they_must,
    counters_are_the_logs,
    no_result_is_both_refused_and_accepted,
    leases_of_the_living_are_left_alone,
    the_log_has_no_gaps,
    workers_do_not_end_by_themselves,
    *RECOUNTS,
)


def complaints(evidence: Evidence) -> list[str]:
    """Everything that is wrong, a few of each kind."""
    index = EvidenceIndex(evidence)
    found = []
    for check in CHECKS:
        wrong = list(check(index))
        found += [f"{check.__name__} ({len(wrong)}): {text}" for text in wrong[:SHOWN]]
    return found
