"""Client: the verbs of App on jobs, batches, redrives, services, pauses and events, on a server."""

import asyncio
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import msgspec
from msgspec import UNSET, UnsetType

from mulligan.client.connection import Connection
from mulligan.client.follow import Following
from mulligan.client.parts import add_counts, last_id, split_filter, split_ids
from mulligan.console.batches import Batch, Retried
from mulligan.console.dead_letters import ExportedJob, Purge
from mulligan.console.results import result_of
from mulligan.errors import BatchExpired, IllegalMove, ServerError
from mulligan.explain import Explanation
from mulligan.records.alert import AlertBoard, AlertRule
from mulligan.records.batch import BatchState
from mulligan.records.counts import Counts
from mulligan.records.delivery import Delivery
from mulligan.records.document import document_of, record_of
from mulligan.records.event import Event, EventPage
from mulligan.records.exposition import check_prefix, expose
from mulligan.records.failure_group import FailureGroup, GroupPage, GroupState
from mulligan.records.job import Job, JobFilter, Page
from mulligan.records.metric import Metric
from mulligan.records.pause import Pause
from mulligan.records.progress import Progress
from mulligan.records.rate import Rate
from mulligan.records.redrive import Redrive
from mulligan.records.statistics import Statistics
from mulligan.records.subscription import CreatedSubscription, SubscriptionRecord
from mulligan.service.records import ServiceStatus
from mulligan.store.messages import WorkerRecord
from mulligan.values.duration import Duration, parse
from mulligan.values.ids import is_complete

# How often `wait` looks, in seconds: often at first.
FIRST_LOOK, LONGEST_LOOK, GROWTH = 0.05, 1.0, 1.5
FORBIDDEN = 403


class Client:
    """The verbs of an App, carried out by a server.

        with Client("https://jobs.example.org", key=os.environ["MULLIGAN_KEY"]) as client:
            job = client.enqueue("convert", {"pdf": "a.pdf"})
            print(client.wait(job, timeout="1m"))

    `url`      the address of the server, with the path below which the API is mounted
    `key`      the key; it says who calls and what is allowed
    `timeout`  how long one answer may take
    `patience` how long a call is repeated, in all: after a cut connection, while a proxy answers 502, 503 or 504, and
               as the server asks with Retry-After
    `context`  an `ssl.SSLContext`, for example for a certificate authority of your own
    `reveal`   whether `job`, `jobs` and `export` show the secrets in arguments and results. The key must have the scope
               `args:reveal`, and the server records each such call in its audit

    Verbs return the same records and raise the same errors as those of an App; ServerError for what an App does not
    know: no connection, a key that is not accepted or does not allow the call. A change that is repeated is carried out
    once. The server stores the key as the actor; `actor=` is accepted and ignored. A client can be used from several
    threads; in a coroutine, call its verbs with `asyncio.to_thread`.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: Duration = "30s",
        patience: Duration = "30s",
        context: ssl.SSLContext | None = None,
        reveal: bool = False,
    ) -> None:
        self._server = Connection(url.rstrip("/"), key, parse(timeout), parse(patience), context)
        self._reveal = reveal
        self._may_reveal = True

    def __repr__(self) -> str:
        return f"<Client {self._server.url}>"

    def close(self) -> None:
        """Close the connection of this thread. The next call opens it again."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Enqueue and wait

    def enqueue(
        self, kind: str, arguments: Mapping[str, Any] | None = None, *, request_id: str | None = None, **options: Any
    ) -> Job[Any]:
        """Enqueue a public task: `client.enqueue("convert", {"pdf": "a.pdf"}, delay="10m", tags=["eu"])`.

        `options` are those of `task.options`. Raises UnknownKind for a task that is not public, and what
        `task.enqueue` raises.
        """
        body = {"kind": kind, "arguments": dict(arguments or {}), **options}
        return self._job(self._server.change("POST", "/jobs", body, request_id=request_id, kind=kind))

    async def enqueue_async(self, kind: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Job[Any]:
        """Like `enqueue`, without blocking the event loop."""
        return await asyncio.to_thread(self.enqueue, kind, arguments, **options)

    def wait(self, job: Job[Any] | str, timeout: Duration | None = None) -> Any:
        """Wait until a job is over and return its result, as JSON has it.

        Secrets in it are masked if the key lacks the scope `args:reveal`.
        Raises JobFailed, JobCancelled, ResultExpired, TimeoutError and JobNotFound.
        """
        job_id = job if isinstance(job, str) else job.id
        clock, look = self._server.clock, FIRST_LOOK
        end = None if timeout is None else clock.monotonic() + parse(timeout).total_seconds()
        while not (found := self._find(job_id, reveal=False)).state.is_final:
            left = look if end is None else min(look, end - clock.monotonic())
            if left <= 0:
                raise TimeoutError(f"job {job_id!r} is still {found.state}")
            self._server.pause(left)
            look = min(look * GROWTH, LONGEST_LOOK)
        return result_of(self._with_result(found))

    def _with_result(self, job: Job[Any]) -> Job[Any]:
        """The job with its result in clear, if the key allows it. Only this call of `wait` is recorded in the audit."""
        if not self._may_reveal or not isinstance(job.result, str | list | dict):
            return job
        try:
            return self._find(job.id, reveal=True)
        except ServerError as error:
            if error.status != FORBIDDEN:
                raise
            self._may_reveal = False
            return job

    async def wait_async(self, job: Job[Any] | str, timeout: Duration | None = None) -> Any:
        """Like `wait`, without blocking the event loop."""
        return await asyncio.to_thread(self.wait, job, timeout)

    # Jobs

    def job(self, job_id: str) -> Job[Any]:
        """Return one job as it is now. Raises JobNotFound."""
        return self._find(job_id, reveal=self._reveal)

    def _find(self, job_id: str, *, reveal: bool) -> Job[Any]:
        return self._job(self._server.get(f"/jobs/{_part(job_id)}", _revealed(reveal=reveal), job_id=job_id))

    def find_id(self, what: str, part: str) -> str:
        """Complete the id of a `"job"`, `"batch"`, `"redrive"`, `"group"` and so on that begins or ends with `part`."""
        if is_complete(what, part):
            return part
        about: dict[str, Any] = {"part": part, f"{what}_id": part}
        found: str = self._server.get(f"/ids/{_part(what)}/{_part(part)}", None, **about)["id"]
        return found

    def jobs(self, wanted: JobFilter | None = None, *, limit: int = 50, cursor: str | None = None) -> Page[Any]:
        """Return one page of jobs, newest first."""
        found: list[Job[Any]] = []
        damaged: list[str] = []
        parts = split_filter(wanted, cursor)
        for part in parts:
            page = self._page(part, limit - len(found) - len(damaged), cursor)
            found += page.jobs
            damaged += page.damaged
            if page.cursor is not None:
                return Page(tuple(found), page.cursor, tuple(damaged))
            if len(found) + len(damaged) >= limit and part is not parts[-1]:
                return Page(tuple(found), last_id(part), tuple(damaged))
        return Page(tuple(found), None, tuple(damaged))

    def _page(self, wanted: JobFilter, limit: int, cursor: str | None) -> Page[Any]:
        query = {**document_of(wanted), "limit": limit, "cursor": cursor, **_revealed(reveal=self._reveal)}
        return record_of(Page, self._server.get("/jobs", query))

    def blocked_by(self, jobs: Sequence[Job[Any]]) -> dict[str, str]:
        """Say what keeps waiting and queued jobs from running: `{job.id: "service/gateway"}`."""
        found: dict[str, str] = {}
        for ids in split_ids(job.id for job in jobs):
            query: dict[str, Any] = {"ids": ids, "limit": len(ids)}
            page = self._server.get("/jobs", query)
            documents = page["jobs"]
            while page["cursor"] is not None:
                page = self._server.get("/jobs", {**query, "cursor": page["cursor"]})
                documents += page["jobs"]
            found |= {each["id"]: each["blocked_by"] for each in documents if each.get("blocked_by")}
        return found

    def counts(self, wanted: JobFilter | None = None, *, by: str = "state") -> Counts:
        """Count the jobs that match a filter by state, kind, queue, code, last code, group, owner or batch."""
        answers = [self._server.get("/jobs/counts", {**document_of(part), "by": by}) for part in split_filter(wanted)]
        return add_counts([record_of(Counts, answer) for answer in answers])

    def export(self, wanted: JobFilter | None = None, *, events: bool = False) -> Iterator[ExportedJob]:
        """Iterate over all jobs that match, newest first; with `events=True`, with their histories.

        Raises ServerError if the export breaks off: it is not complete then.
        """
        for part in split_filter(wanted):
            query = {**document_of(part), "events": events, **_revealed(reveal=self._reveal)}
            for line in self._server.lines("/jobs/export", query):
                document = msgspec.json.decode(line)
                history = tuple(record_of(Event, event) for event in document.pop("events", ()))
                yield ExportedJob(self._job(document), history)

    def purge(
        self,
        wanted: JobFilter,
        *,
        older_than: Duration,
        dry_run: bool = True,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Purge:
        """Delete jobs that are over for longer than `older_than`, with their histories. By default only count them."""
        body: dict[str, Any] = {"filter": wanted, "older_than": parse(older_than), "dry_run": dry_run, "reason": reason}
        return record_of(Purge, self._server.change("POST", "/jobs/purge", body, request_id=request_id))

    def stuck(self, *, owner: str | None = None, limit: int = 50) -> list[Job[Any]]:
        """Return jobs that run longer than the stuck limit and their own timeout, longest first."""
        found = self._server.get("/admin/jobs/stuck", {"owner": owner, "limit": limit})
        return [self._job(job) for job in found["jobs"]]

    def process_stuck(
        self,
        *,
        owner: str | None = None,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        limit: int = 200,
        request_id: str | None = None,
    ) -> list[Job[Any]]:
        """Take stuck jobs from their workers. Each is settled as a TIMEOUT failure, by its policy."""
        body = {"owner": owner, "reason": reason, "limit": limit}
        found = self._server.change("POST", "/admin/jobs/process-stuck", body, request_id=request_id)
        return [self._job(job) for job in found["jobs"]]

    def queue_position(self, job_id: str) -> int | None:
        """Return the place of a queued job in the order in which workers claim; None if it is not queued."""
        found: int | None = self._server.get(f"/jobs/{_part(job_id)}/position", job_id=job_id)["position"]
        return found

    def last_failures(self, job_ids: Sequence[str]) -> dict[str, Event]:
        """Return the event of the last failure of each job, by id. Jobs that never failed are missing."""
        found: dict[str, Any] = {}
        for ids in split_ids(job_ids):
            found |= self._server.get("/jobs/last-failures", {"ids": ids})["failures"]
        return {job_id: record_of(Event, event) for job_id, event in found.items()}

    def explain(self, job_id: str, *, for_owner: bool = False) -> Explanation:  # noqa: ARG002
        """Explain what happened to a job and what comes next. The key decides whether it is the owner's view."""
        return record_of(Explanation, self._server.get(f"/jobs/{_part(job_id)}/explain", job_id=job_id))

    # Events

    def events(self, job: str | None = None, *, after: int = 0, limit: int = 500) -> list[Event]:
        """Return events of the log, oldest first: those of one job, or all, after the position `after`."""
        if job is None:
            return list(self.stream(after=after, limit=limit).events)
        found = self._server.get(f"/jobs/{_part(job)}/events", {"after": after, "limit": limit}, job_id=job)["events"]
        return [record_of(Event, event) for event in found]

    def stream(
        self,
        *,
        after: int = 0,
        job: str | None = None,
        batch: str | None = None,
        kind: str | None = None,
        owner: str | None = None,
        types: Sequence[str] | None = None,
        limit: int = 500,
    ) -> EventPage:
        """Return the next page of the log after the position `after`. `owner` is for administrators."""
        query = {"after": after, "limit": limit, "job": job, "batch": batch, "kind": kind, "owner": owner}
        return record_of(EventPage, self._server.get("/events", {**query, "types": types}, job_id=job))

    def history(self, *, service: str | None = None, batch: str | None = None, limit: int = 100) -> list[Event]:
        """Return the newest events about one service or one batch itself, newest first."""
        query = {"service": service, "batch": batch, "limit": limit}
        found = self._server.get("/history", query, batch_id=batch, name=service)["events"]
        return [record_of(Event, event) for event in found]

    def follow(
        self,
        *,
        after: int | None = None,
        job: str | None = None,
        batch: str | None = None,
        kind: str | None = None,
        owner: str | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[Event | Progress]:
        """Iterate over events as they happen, after the position `after` or from now on, without an end.

            for event in client.follow(after=position, types=["job.failed"]):
                if isinstance(event, Event):
                    position = event.position

        It connects again by itself and skips or repeats no event. `types` may have `job.progress`; without `types`
        progress comes too. Raises EventsMissed if events were deleted before they were read, or if the position is not
        of this log: load what you derive from events anew, and follow `after=error.position`.
        """
        query = {"job": job, "batch": batch, "kind": kind, "owner": owner, "types": types}
        yield from Following(self._server, query, after)

    def last_position(self, *, back: int = 0) -> int:
        """Return the position of the last event in the log; with `back=N`, the position N events earlier."""
        found: int = self._server.get("/events/position", {"back": back})["position"]
        return found

    def progress(
        self, *, job: str | None = None, batch: str | None = None, since: datetime | None = None, limit: int = 500
    ) -> list[Progress]:
        """Return the progress of running jobs that changed after `since`, the oldest change first."""
        found = self._server.get("/jobs/progress", {"job": job, "batch": batch, "since": since, "limit": limit})
        return [record_of(Progress, one) for one in found["progress"]]

    # Moves

    def retry(
        self, job_id: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> Job[Any]:
        """Start a failed, cancelled or waiting job again: its counters are reset and it is due now."""
        return self._move("retry", job_id, actor, reason=reason, request_id=request_id)

    def run_now(
        self, job_id: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> Job[Any]:
        """Run a waiting job now, or a failed or cancelled job once more. Its counters are kept."""
        return self._move("run-now", job_id, actor, reason=reason, request_id=request_id)

    def cancel(
        self, job_id: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> Job[Any]:
        """Cancel a job. A running job is asked to stop, and is cancelled when its attempt ends."""
        return self._move("cancel", job_id, actor, reason=reason, request_id=request_id)

    def snooze(
        self,
        job_id: str,
        delay: Duration,
        *,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Job[Any]:
        """Postpone a waiting or queued job by `delay` from now."""
        return self._move("snooze", job_id, actor, reason=reason, request_id=request_id, delay=parse(delay))

    def expire_result(
        self, job_id: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> Job[Any]:
        """Delete the result of a succeeded job. Raises NoResult."""
        return self._move("expire-result", job_id, actor, reason=reason, request_id=request_id)

    def release_key(
        self, job_id: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> Job[Any]:
        """Take the dedupe key from a job that is over."""
        return self._move("release-key", job_id, actor, reason=reason, request_id=request_id)

    def _move(
        self, verb: str, job_id: str, _actor: str | None, *, reason: str | None, request_id: str | None, **more: Any
    ) -> Job[Any]:
        return self._job(
            self._server.change(
                "POST",
                f"/jobs/{_part(job_id)}/{verb}",
                {"reason": reason, **more},
                request_id=request_id,
                refused=IllegalMove,
                job_id=job_id,
            )
        )

    # Redrives

    def redrive(
        self,
        wanted: JobFilter,
        *,
        rate: Rate | float | str = "50/s",
        canary: int = 5,
        abort_above: float = 0.5,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        """Retry all failed jobs that match a filter, at a rate."""
        body: dict[str, Any] = {"filter": wanted, "rate": rate, "canary": canary, "abort_above": abort_above}
        body |= {"reason": reason, "dry_run": dry_run}
        return self._redrive(self._server.change("POST", "/redrives", body, request_id=request_id))

    def bulk(
        self,
        verb: str,
        wanted: JobFilter | None = None,
        *,
        ids: Sequence[str] | None = None,
        delay: Duration | None = None,
        rate: Rate | float | str = "500/s",
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        """Cancel, snooze or run many jobs: `"cancel"`, `"snooze"` or `"run_now"`."""
        body: dict[str, Any] = {"filter": wanted, "ids": ids, "rate": rate, "reason": reason, "dry_run": dry_run}
        body |= {"delay": None if delay is None else parse(delay)}
        path = f"/jobs/bulk/{_part(verb.replace('_', '-'))}"
        return self._redrive(self._server.change("POST", path, body, request_id=request_id))

    def redrives(self, *, limit: int = 50) -> list[Redrive]:
        """Return redrives and bulk operations, newest first."""
        return [self._redrive(found) for found in self._server.get("/redrives", {"limit": limit})["redrives"]]

    def redrive_status(self, redrive_id: str) -> Redrive:
        """Return a redrive with its progress. Raises RedriveNotFound."""
        return self._redrive(self._server.get(f"/redrives/{_part(redrive_id)}", redrive_id=redrive_id))

    def cancel_redrive(
        self,
        redrive_id: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Redrive:
        """End a redrive. Jobs that it has retried stay retried."""
        path, query = f"/redrives/{_part(redrive_id)}", {"reason": reason}
        found = self._server.change("DELETE", path, query=query, request_id=request_id, redrive_id=redrive_id)
        return self._redrive(found)

    # Failure groups and statistics

    def failures(
        self,
        *,
        state: GroupState | str | Sequence[GroupState | str] | None = None,
        kind: str | None = None,
        code: str | None = None,
        order: str = "impact",
        limit: int = 50,
        cursor: str | None = None,
    ) -> GroupPage:
        """Return one page of failure groups, those with the highest impact first."""
        states = [state] if isinstance(state, str) else state and list(state)
        query = {"state": states, "kind": kind, "code": code, "order": order, "limit": limit, "cursor": cursor}
        return record_of(GroupPage, self._server.get("/failures", query))

    def failure(self, group: str) -> FailureGroup:
        """Return one failure group. Raises GroupNotFound."""
        return record_of(FailureGroup, self._server.get(f"/failures/{_part(group)}", group_id=group))

    def retry_failure(
        self,
        group: str,
        *,
        rate: Rate | float | str = "50/s",
        canary: int = 5,
        abort_above: float = 0.5,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        """Retry the failed jobs of a group, at a rate. Raises GroupNotFound."""
        body = {"rate": rate, "canary": canary, "abort_above": abort_above, "reason": reason, "dry_run": dry_run}
        path = f"/failures/{_part(group)}/retry"
        return self._redrive(self._server.change("POST", path, body, request_id=request_id, group_id=group))

    def ignore_failure(
        self,
        group: str,
        duration: Duration | None = None,
        *,
        growth: float | None = None,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
    ) -> FailureGroup:
        """Ignore a failure group, for a time, or until it grows. Raises GroupNotFound."""
        seconds = None if duration is None else parse(duration).total_seconds()
        return self._decide(group, "ignore", {"duration": seconds, "growth": growth, "reason": reason}, request_id)

    def resolve_failure(
        self,
        group: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
    ) -> FailureGroup:
        """Resolve a failure group. Raises GroupNotFound."""
        return self._decide(group, "resolve", {"reason": reason}, request_id)

    def reopen_failure(
        self,
        group: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
    ) -> FailureGroup:
        """Open a failure group that is ignored or resolved. Raises GroupNotFound."""
        return self._decide(group, "reopen", {"reason": reason}, request_id)

    def _decide(self, group: str, verb: str, body: Mapping[str, Any], request_id: str | None) -> FailureGroup:
        path = f"/failures/{_part(group)}/{verb}"
        return record_of(FailureGroup, self._server.change("POST", path, body, request_id=request_id, group_id=group))

    def statistics(
        self,
        *,
        span: str = "hour",
        since: datetime | None = None,
        until: datetime | None = None,
        kind: str | None = None,
        service: str | None = None,
        outcome: str | None = None,
        code: str | None = None,
        owner: str | None = None,
        limit: int = 10_000,
    ) -> Statistics:
        """Return what happened in each minute, hour or day, and what that says about retries."""
        query: dict[str, Any] = {"span": span, "since": since, "until": until, "kind": kind, "service": service}
        query |= {"outcome": outcome, "code": code, "owner": owner, "limit": limit}
        return record_of(Statistics, self._server.get("/statistics", query))

    def rebuild_statistics(self) -> None:
        """Fold the event log again into failure groups and statistics."""
        self._server.change("POST", "/statistics/rebuild")

    def metrics(self, prefix: str | None = None) -> str:
        """Return all metrics in the text format of Prometheus. `prefix` is what the names begin with; by default
        `mulligan_`."""
        return expose(self.read_metrics(), check_prefix("mulligan_" if prefix is None else prefix))

    def read_metrics(self) -> list[Metric]:
        """Return all metrics as records, without a prefix."""
        return [record_of(Metric, found) for found in self._server.get("/metrics")["metrics"]]

    # Batches

    def batch(
        self,
        name: str,
        *,
        owner: str = "",
        expires_in: Duration | None = None,
        on_settled: str | None = None,
        success_at: float = 1.0,
        abort_above: float | None = None,
        request_id: str | None = None,
    ) -> Batch:
        """Create a draft of a batch. `on_settled` is the name of a public task, which gets the id of the batch.

        batch = client.batch("import", on_settled="report")
        batch.add({"kind": "convert", "arguments": {"pdf": "a.pdf"}})
        batch.publish()
        """
        body: dict[str, Any] = {
            "name": name,
            "owner": owner or None,
            "success_at": success_at,
            "abort_above": abort_above,
            "on_settled": on_settled,
        }
        body |= {"expires_in": None if expires_in is None else parse(expires_in)}
        return self._batch(self._server.change("POST", "/batches", body, request_id=request_id))

    def find_batch(self, batch_id: str) -> Batch:
        """Return one batch with its counts. Raises BatchNotFound."""
        return self._batch(self._server.get(f"/batches/{_part(batch_id)}", batch_id=batch_id))

    def batches(
        self,
        *,
        state: BatchState | str | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Batch]:
        """Return batches, newest first. `owner` is for administrators."""
        query = {"state": state, "owner": owner, "limit": limit, "cursor": cursor}
        return [self._batch(found) for found in self._server.get("/batches", query)["batches"]]

    def publish_batch(
        self,
        batch_id: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        request_id: str | None = None,
    ) -> Batch:
        """Count the members of a draft and let them run. A published batch does not change."""
        path = f"/batches/{_part(batch_id)}/publish"
        return self._batch(self._server.change("POST", path, request_id=request_id, batch_id=batch_id))

    def retry_batch(
        self,
        batch_id: str,
        *,
        cancelled: bool = False,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Retried:
        """Retry all failed members in one step, with `cancelled=True` the cancelled ones too."""
        path, body = f"/batches/{_part(batch_id)}/retry", {"cancelled": cancelled, "reason": reason}
        found = self._server.change("POST", path, body, request_id=request_id, refused=BatchExpired, batch_id=batch_id)
        return record_of(Retried, found, _batches=_RemoteBatches(self))

    def cancel_batch(
        self,
        batch_id: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Batch:
        """Cancel all members that are not over."""
        path = f"/batches/{_part(batch_id)}/cancel"
        found = self._server.change("POST", path, {"reason": reason}, request_id=request_id, batch_id=batch_id)
        return self._batch(found)

    def add_members(
        self, batch_id: str, calls: Sequence[Mapping[str, Any]], *, request_id: str | None = None
    ) -> list[Job[Any]]:
        """Store calls of public tasks as members of a draft: `{"kind": …, "arguments": {…}}`."""
        path = f"/batches/{_part(batch_id)}/jobs"
        found = self._server.change("POST", path, {"jobs": list(calls)}, request_id=request_id, batch_id=batch_id)
        return [self._job(job) for job in found["jobs"]]

    # Services, pauses and workers

    def services(self) -> list[ServiceStatus]:
        """Return every service, by name."""
        return [record_of(ServiceStatus, found) for found in self._server.get("/services")["services"]]

    def service(self, name: str) -> "RemoteService":
        """Return one service, to read its status or to force its circuit breaker."""
        return RemoteService(name, self._server)

    def pauses(self) -> list[Pause]:
        """Return all pauses in force."""
        return [record_of(Pause, found) for found in self._server.get("/pauses")["pauses"]]

    def pause(
        self,
        duration: Duration | None = None,
        *,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
        **target: str | None,
    ) -> Pause:
        """Pause `queue=`, `kind=`, `service=`, `duty=`, `schedule=` or `intake=` in all workers."""
        body = {"duration": None if duration is None else parse(duration), "reason": reason, **target}
        return record_of(Pause, self._server.change("POST", "/pauses", body, request_id=request_id))

    def resume(
        self,
        *,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
        **target: str | None,
    ) -> Pause | None:
        """End a pause and return it; None if there was none."""
        found = self._server.change("DELETE", "/pauses", query={"reason": reason, **target}, request_id=request_id)
        return None if found["ended"] is None else record_of(Pause, found["ended"])

    def workers(self) -> list[WorkerRecord]:
        """Return the workers that the store knows."""
        found = self._server.get("/admin/workers/status")["workers"]
        return [record_of(WorkerRecord, worker) for worker in found]

    # Alerts

    def alerts(self) -> AlertBoard:
        """Return all alerts, firing ones first, and their rules."""
        return record_of(AlertBoard, self._server.get("/alerts"), _is_notified=False)

    def set_alert(
        self,
        check: str,
        *,
        threshold: Duration | None = None,
        level: str | None = None,
        after: Duration | None = None,
        resolve_after: Duration | None = None,
        is_on: bool | None = None,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
    ) -> AlertRule:
        """Set the terms of an alert rule. They replace all that were set before."""
        body = {"check": check, "level": level, "is_on": is_on, "reason": reason, "threshold": threshold}
        body |= {"after": after, "resolve_after": resolve_after}
        return record_of(AlertRule, self._server.change("PUT", "/alerts", body, request_id=request_id, name=check))

    def silence_alert(
        self,
        check: str,
        duration: Duration | None = None,
        *,
        actor: str | None = None,  # noqa: ARG002
        reason: str | None = None,
        request_id: str | None = None,
    ) -> AlertRule:
        """Do not notify of an alert for a time."""
        body = {"duration": None if duration is None else parse(duration), "reason": reason}
        path = f"/alerts/{_part(check)}/silence"
        return record_of(AlertRule, self._server.change("POST", path, body, request_id=request_id, name=check))

    def unsilence_alert(
        self,
        check: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        request_id: str | None = None,
    ) -> AlertRule:
        """End the silence of an alert."""
        path = f"/alerts/{_part(check)}/unsilence"
        return record_of(AlertRule, self._server.change("POST", path, request_id=request_id, name=check))

    # Subscriptions and deliveries

    def subscribe(
        self,
        name: str,
        *,
        types: Iterable[str],
        channel: str,
        to: str,
        owner: str | None = None,
        digest: Duration | UnsetType | None = UNSET,
        actor: str | None = None,  # noqa: ARG002
        request_id: str | None = None,
        **chosen: str | None,
    ) -> CreatedSubscription:
        """Subscribe to events. The secret that signs webhooks is in the answer, and is not shown again."""
        body: dict[str, Any] = {"name": name, "types": list(types), "channel": str(channel), "to": to}
        body |= {key: value for key, value in chosen.items() if value is not None}
        if owner is not None:
            body["owner"] = owner
        if not isinstance(digest, UnsetType):
            body["digest"] = None if digest is None else parse(digest).total_seconds()
        return record_of(
            CreatedSubscription, self._server.change("POST", "/subscriptions", body, request_id=request_id)
        )

    def subscriptions(
        self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> list[SubscriptionRecord]:
        """Return subscriptions by id. With `owner`, only those of this page that belong to the owner."""
        found = self._server.get("/subscriptions", {"limit": limit, "cursor": cursor})["subscriptions"]
        records = [record_of(SubscriptionRecord, each) for each in found]
        return [each for each in records if owner is None or each.owner == owner]

    def subscription(self, subscription: str) -> SubscriptionRecord:
        """Return one subscription. Raises SubscriptionNotFound."""
        return record_of(SubscriptionRecord, self._server.get(_subscription(subscription), subscription=subscription))

    def unsubscribe(
        self,
        subscription: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        request_id: str | None = None,
    ) -> SubscriptionRecord:
        """Remove a subscription. What was not sent yet is skipped."""
        found = self._server.change(
            "DELETE", _subscription(subscription), request_id=request_id, subscription=subscription
        )
        return record_of(SubscriptionRecord, found)

    def disable_subscription(
        self,
        subscription: str,
        *,
        reason: str | None = None,
        actor: str | None = None,  # noqa: ARG002
        request_id: str | None = None,
    ) -> SubscriptionRecord:
        """Stop telling a subscription."""
        path = f"{_subscription(subscription)}/disable"
        found = self._server.change("POST", path, {"reason": reason}, request_id=request_id, subscription=subscription)
        return record_of(SubscriptionRecord, found)

    def enable_subscription(
        self,
        subscription: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        request_id: str | None = None,
    ) -> SubscriptionRecord:
        """Tell a disabled subscription again, from now on."""
        found = self._server.change(
            "POST", f"{_subscription(subscription)}/enable", request_id=request_id, subscription=subscription
        )
        return record_of(SubscriptionRecord, found)

    def rotate_secret(
        self,
        subscription: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        request_id: str | None = None,
    ) -> CreatedSubscription:
        """Give a webhook a new secret. For a day, the previous one signs as well."""
        found = self._server.change(
            "POST", f"{_subscription(subscription)}/rotate", request_id=request_id, subscription=subscription
        )
        return record_of(CreatedSubscription, found)

    def test_subscription(
        self,
        subscription: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        request_id: str | None = None,
    ) -> Delivery:
        """Send a sample to the recipient of a subscription."""
        found = self._server.change(
            "POST", f"{_subscription(subscription)}/test", request_id=request_id, subscription=subscription
        )
        return record_of(Delivery, found)

    def deliveries(
        self,
        *,
        subscription: str | None = None,
        state: str | None = None,
        about: str | None = None,
        digest: str | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Delivery]:
        """Return what subscriptions were told, newest first. With `owner`, only those of this page of that owner."""
        query = {"subscription": subscription, "state": state, "about": about, "digest": digest}
        found = self._server.get("/deliveries", {**query, "limit": limit, "cursor": cursor})["deliveries"]
        records = [record_of(Delivery, each) for each in found]
        return [each for each in records if owner is None or each.owner == owner]

    def delivery(self, delivery: str) -> Delivery:
        """Return one delivery, with the body that is sent. Raises DeliveryNotFound."""
        found = self._server.get(f"/deliveries/{_part(delivery)}", delivery=delivery)
        return record_of(Delivery, found, _body=found.get("body"))

    def redeliver(
        self,
        delivery: str,
        *,
        actor: str | None = None,  # noqa: ARG002
        request_id: str | None = None,
    ) -> Delivery:
        """Send the same body under the same id again."""
        path = f"/deliveries/{_part(delivery)}/redeliver"
        return record_of(Delivery, self._server.change("POST", path, request_id=request_id, delivery=delivery))

    # Records

    def _job(self, document: Mapping[str, Any]) -> Job[Any]:
        return record_of(Job, document)

    def _redrive(self, document: Mapping[str, Any]) -> Redrive:
        return record_of(Redrive, document)

    def _batch(self, document: Mapping[str, Any]) -> Batch:
        return record_of(Batch, document, _batches=_RemoteBatches(self))


class RemoteService:
    """One service of a server: `client.service("gateway").open(reason="maintenance")`."""

    def __init__(self, name: str, server: Connection) -> None:
        self.name = name
        self._server = server

    @property
    def status(self) -> ServiceStatus:
        """Its current state. Raises UnknownService."""
        return record_of(ServiceStatus, self._server.get(self._path, name=self.name))

    def open(
        self, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> ServiceStatus:
        """Force it open in all workers."""
        return self._force("open", actor, reason, request_id)

    def close(
        self, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> ServiceStatus:
        """Force it closed in all workers."""
        return self._force("close", actor, reason, request_id)

    def auto(
        self, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> ServiceStatus:
        """Let its calls decide again."""
        return self._force("auto", actor, reason, request_id)

    @property
    def _path(self) -> str:
        return f"/services/{_part(self.name)}"

    def _force(self, verb: str, _actor: str | None, reason: str | None, request_id: str | None) -> ServiceStatus:
        path = f"{self._path}/{verb}"
        found = self._server.change("POST", path, {"reason": reason}, request_id=request_id, name=self.name)
        return record_of(ServiceStatus, found)


class _RemoteBatches:
    """What the verbs of a `Batch` call."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def add(self, batch: Batch, calls: Sequence[Any], *, connection: Any = None) -> list[Job[Any]]:
        if connection is not None:
            raise TypeError("a client of a server has no connection to its database")
        return self._client.add_members(batch.id, calls)

    def publish(self, batch_id: str, *, owner: str | None = None, **sign: Any) -> Batch:  # noqa: ARG002
        return self._client.publish_batch(batch_id, **sign)

    def retry(self, batch_id: str, *, owner: str | None = None, **sign: Any) -> Retried:  # noqa: ARG002
        return self._client.retry_batch(batch_id, **sign)

    def cancel(self, batch_id: str, *, owner: str | None = None, **sign: Any) -> Batch:  # noqa: ARG002
        return self._client.cancel_batch(batch_id, **sign)

    def find(self, batch_id: str) -> Batch:
        return self._client.find_batch(batch_id)


def _subscription(subscription: str) -> str:
    return f"/subscriptions/{_part(subscription)}"


def _revealed(*, reveal: bool) -> dict[str, bool]:
    # A server of an earlier version does not know the parameter.
    return {"reveal": True} if reveal else {}


def _part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")
