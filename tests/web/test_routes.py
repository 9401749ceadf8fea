"""Every route of the API, driven over HTTP on each store."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from world import World

from mulligan.lifecycle import State
from mulligan.records.document import document_of, document_type
from mulligan.records.duty import DUTIES
from mulligan.records.job import Job
from mulligan.web.api import (
    admin,
    alerts,
    batches,
    dead_letters,
    enqueue,
    failures,
    jobs,
    limits,
    metrics,
    moves,
    pauses,
    policies,
    redrives,
    schedules,
    services,
    statistics,
    system,
)
from mulligan.web.route import collect

MINE = (
    *(admin, alerts, batches, dead_letters, enqueue, failures, jobs, limits, metrics, moves, pauses, policies),
    *(redrives, schedules, services, statistics),
)
ROUTES = collect([*(module.routes for module in MINE), metrics.text, system.routes, system.ids])

DRIVEN: dict[str, Callable[[World], None]] = {}


def drives(*names: str) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    def add(drive: Callable[[World], None]) -> Callable[[World], None]:
        DRIVEN.update(dict.fromkeys(names, drive))
        return drive

    return add


def ok(response: Any, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


def refused(response: Any, status: int, code: str) -> Any:
    assert response.headers["content-type"] == "application/problem+json"
    found = response.json()
    assert (response.status_code, found["status"], found["code"]) == (status, status, code), found
    assert found["message"]
    return found


# Failure groups and statistics


def group_of(world: World, client: Any, why: str) -> Any:
    """The group of the jobs that failed with this message."""
    world.app.run_duty("project")
    listed = ok(client.get("failures", params={"state": ["open"], "kind": "reject", "limit": 1_000}))["groups"]
    (group,) = [group for group in listed if group["title"].endswith(f": {why}")]
    return group


@drives("failures", "failure")
def _failures(world: World) -> None:
    job, theirs = world.failed(why="listed"), world.failed(owner="other", why="listed")
    group = group_of(world, world.admin, "listed")
    assert (group["failures"], group["jobs"], group["failed"], group["owners"]) == (2, 2, 2, 2)
    found = ok(world.admin.get(f"failures/{group['id']}"))
    assert [owner["name"] for owner in found["top_owners"]] == ["acme", "other"]
    own = group_of(world, world.acme, "listed")
    assert (own["failures"], own["owners"], own["sample"]["job"]) == (1, 1, job.id)
    others = group_of(world, world.other, "listed")
    assert others["sample"]["job"] == theirs.id
    assert ok(world.acme.get(f"failures/{group['id']}"))["top_owners"] == []
    refused(world.acme.get("failures/nothing"), 404, "GROUP_NOT_FOUND")
    refused(world.acme.get("failures", params={"cursor": "x"}), 400, "VALIDATION_ERROR")


@drives("retry_failure")
def _retry_failure(world: World) -> None:
    world.failed(why="retried")
    world.failed(owner="other", why="retried")
    group = group_of(world, world.acme, "retried")
    path = f"failures/{group['id']}/retry"
    assert ok(world.acme.post(path, json={"dry_run": True}))["matched"] == 1
    begun = ok(world.acme.post(path, json={"rate": "5/s", "reason": "mended"}))
    assert (begun["matched"], begun["filter"]["group"], begun["reason"]) == (1, group["id"], None), "no people"
    assert world.app.redrive_status(begun["id"]).reason == "mended"
    refused(world.acme.post("failures/nothing/retry"), 404, "GROUP_NOT_FOUND")


@drives("ignore_failure", "resolve_failure", "reopen_failure")
def _decide_failure(world: World) -> None:
    world.failed(why="decided")
    group = group_of(world, world.admin, "decided")
    path = f"failures/{group['id']}"
    ignored = ok(world.admin.post(f"{path}/ignore", json={"duration": "7d", "growth": 3, "reason": "known"}))
    assert (ignored["state"], ignored["ignored_below"], ignored["reason"]) == ("ignored", 3, "known")
    seen = ok(world.acme.get(path))
    assert (seen["state"], seen["decided_by"], seen["reason"]) == ("ignored", None, None), "no people"
    assert ok(world.admin.post(f"{path}/resolve"))["state"] == "resolved"
    assert ok(world.admin.post(f"{path}/reopen"))["state"] == "open"
    refused(world.admin.post(f"{path}/ignore", json={"growth": 1}), 400, "VALIDATION_ERROR")
    refused(world.admin.post("failures/nothing/resolve"), 404, "GROUP_NOT_FOUND")


@drives("statistics", "rebuild_statistics")
def _statistics(world: World) -> None:
    world.failed()
    world.succeeded(owner="other")
    world.app.run_duty("project")
    found = ok(world.admin.get("statistics", params={"span": "day"}))
    assert {row["owner"] for row in found["rows"]} >= {"acme", "other"}
    assert len(found["bounds"]) + 1 == len(found["rows"][0]["histogram"])
    own = ok(world.acme.get("statistics", params={"span": "minute"}))
    assert {row["owner"] for row in own["rows"]} == {"acme"}, "an owner gets its own"
    filtered = ok(world.admin.get("statistics", params={"owner": "other", "outcome": "succeeded"}))
    assert {row["owner"] for row in filtered["rows"]} == {"other"}
    assert {row["outcome"] for row in filtered["rows"]} == {"succeeded"}
    assert world.admin.post("statistics/rebuild").status_code == 204
    assert ok(world.admin.get("statistics"))["status"]["is_rebuilding"]
    world.app.run_duty("project")


# Jobs


@drives("enqueue")
def _enqueue(world: World) -> None:
    body = {"kind": "convert", "arguments": {"path": "a.pdf", "pages": 2}, "tags": ["eu"], "delay": "1h"}
    job = ok(world.acme.post("jobs", json=body), 201)
    assert (job["owner"], job["arguments"], job["tags"]) == ("acme", {"path": "a.pdf", "pages": 2}, ["eu"])
    assert world.app.job(job["id"]).state is State.WAITING
    for kind in ("hidden", "hiden", "nothing"):
        told = refused(world.acme.post("jobs", json={"kind": kind}), 404, "UNKNOWN_KIND")
        assert "convert" in told["message"] and "'hidden'" not in told["message"].replace(f"{kind!r}", "", 1)
    high = ok(world.admin.post("jobs", json={**body, "priority": "high", "owner": "b", "queue": "bulk"}), 201)
    assert (high["priority"], high["owner"], high["queue"]) == (-10, "b", "bulk")


@drives("jobs")
def _jobs(world: World) -> None:
    job = world.failed()
    page = ok(world.acme.get("jobs", params={"state": "failed", "kind": "reject", "limit": 1}))
    assert [each["id"] for each in page["jobs"]] == [job.id]
    assert page["jobs"][0]["blocked_by"] is None
    assert page.keys() == {"jobs", "cursor", "damaged"}
    both = ok(world.acme.get("jobs", params={"state": ["failed", "queued"]}))
    assert {each["state"] for each in both["jobs"]} >= {"failed"}


@drives("counts")
def _counts(world: World) -> None:
    world.failed()
    found = ok(world.acme.get("jobs/counts", params={"by": "code", "state": "failed"}))
    assert found["groups"]["NOT_PDF"] >= 1
    refused(world.acme.get("jobs/counts", params={"by": "shoe"}), 400, "VALIDATION_ERROR")


@drives("progress")
def _progress(world: World) -> None:
    assert ok(world.acme.get("jobs/progress", params={"limit": 5})) == {"progress": []}


@drives("last_failures")
def _last_failures(world: World) -> None:
    job = world.failed()
    found = ok(world.acme.get("jobs/last-failures", params={"ids": [job.id]}))
    assert found["failures"][job.id]["code"] == "NOT_PDF"
    assert ok(world.other.get("jobs/last-failures", params={"ids": [job.id]})) == {"failures": {}}


@drives("job")
def _job(world: World) -> None:
    job = world.succeeded()
    found = ok(world.acme.get(f"jobs/{job.id}"))
    assert found == document_of(job, blocked_by=None)
    msgspec.convert(found, document_type(Job))
    mine = refused(world.other.get(f"jobs/{job.id}"), 404, "JOB_NOT_FOUND")
    missing = refused(world.other.get("jobs/019a9a52-5c00-7000-8000-000000000001"), 404, "JOB_NOT_FOUND")
    assert mine.keys() == missing.keys()


@drives("job_events")
def _job_events(world: World) -> None:
    job = world.succeeded()
    events = ok(world.acme.get(f"jobs/{job.id}/events"))["events"]
    assert [event["type"] for event in events][-1] == "job.succeeded"
    later = ok(world.acme.get(f"jobs/{job.id}/events", params={"after": events[-1]["position"]}))
    assert later == {"events": []}
    refused(world.other.get(f"jobs/{job.id}/events"), 404, "JOB_NOT_FOUND")


@drives("explain")
def _explain(world: World) -> None:
    job = world.failed()
    for_owner = ok(world.acme.get(f"jobs/{job.id}/explain"))
    assert for_owner["job"]["id"] == job.id
    assert "mulligan jobs retry" not in json.dumps(for_owner)
    assert "mulligan jobs retry" in json.dumps(ok(world.admin.get(f"jobs/{job.id}/explain")))


@drives("position")
def _position(world: World) -> None:
    job = world.queued()
    found = ok(world.acme.get(f"jobs/{job.id}/position"))
    assert found["id"] == job.id and found["position"] >= 1 and not found["at_least"]


@drives("retry")
def _retry(world: World) -> None:
    job = world.failed()
    assert ok(world.acme.post(f"jobs/{job.id}/retry", json={"reason": "fixed"}))["state"] == "queued"
    done = world.succeeded()
    refused(world.acme.post(f"jobs/{done.id}/retry"), 400, "VALIDATION_ERROR")


@drives("run_now")
def _run_now(world: World) -> None:
    job = world.queued(delay="1h")
    assert ok(world.acme.post(f"jobs/{job.id}/run-now"))["state"] == "queued"


@drives("cancel")
def _cancel(world: World) -> None:
    job = world.queued()
    assert ok(world.acme.post(f"jobs/{job.id}/cancel", json={"reason": "wrong"}))["state"] == "cancelled"
    assert world.app.events(job.id)[-1].actor == "acme's key"
    refused(world.acme.post(f"jobs/{job.id}/cancel"), 400, "VALIDATION_ERROR")


@drives("snooze")
def _snooze(world: World) -> None:
    job = world.queued()
    assert ok(world.acme.post(f"jobs/{job.id}/snooze", json={"delay": "1h"}))["state"] == "waiting"
    problem = refused(world.acme.post(f"jobs/{job.id}/snooze"), 400, "VALIDATION_ERROR")
    assert "delay" in problem["message"]


@drives("expire_result")
def _expire_result(world: World) -> None:
    job = world.succeeded()
    assert ok(world.acme.post(f"jobs/{job.id}/expire-result"))["result"] is None
    refused(world.acme.post(f"jobs/{world.failed().id}/expire-result"), 409, "NO_RESULT")


@drives("release_key")
def _release_key(world: World) -> None:
    job = world.succeeded(dedupe="once", dedupe_scope="succeeded")
    assert ok(world.acme.post(f"jobs/{job.id}/release-key"))["dedupe_key"] is None


@drives("find_id")
def _find_id(world: World) -> None:
    job = world.queued()
    assert ok(world.acme.get(f"ids/job/{job.id[-10:]}")) == {"id": job.id}
    refused(world.other.get(f"ids/job/{job.id[-10:]}"), 404, "JOB_NOT_FOUND")
    refused(world.acme.get("ids/shoe/abcdef"), 400, "VALIDATION_ERROR")
    world.failed(why="found by a part")
    group = group_of(world, world.admin, "found by a part")["id"]
    assert (
        ok(world.admin.get(f"ids/group/{group[:8]}")) == ok(world.acme.get(f"ids/group/{group[-8:]}")) == {"id": group}
    )
    refused(world.other.get(f"ids/group/{group[:8]}"), 404, "GROUP_NOT_FOUND")
    refused(world.admin.get("ids/delivery/abcdef"), 404, "DELIVERY_NOT_FOUND")


@drives("export")
def _export(world: World) -> None:
    job = world.failed(why="=cmd()")
    lines = world.acme.get("jobs/export", params={"state": "failed", "events": "true"})
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    documents = [json.loads(line) for line in lines.text.splitlines()]
    assert documents[0]["id"] == job.id and documents[0]["events"][-1]["type"] == "job.failed"
    table = world.acme.get("jobs/export", params={"state": "failed", "format": "csv"})
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert rows[0]["id"] == job.id and rows[0]["error_code"] == "NOT_PDF"
    assert len(rows) == len(documents)
    assert all(each["owner"] == "acme" for each in rows)
    assert not any(cell.startswith("=") for row in rows for cell in row.values())


@drives("purge")
def _purge(world: World) -> None:
    job = world.failed(owner="old")
    body = {"filter": {"owner": "old"}, "older_than": 0}
    assert ok(world.admin.post("jobs/purge", json=body))["found"] == 1
    assert ok(world.admin.post("jobs/purge", json={**body, "dry_run": False}))["purged"] == 1
    refused(world.admin.get(f"jobs/{job.id}"), 404, "JOB_NOT_FOUND")


# Batches


@drives("create_batch", "batches", "batch", "add_members", "publish_batch")
def _batch(world: World) -> None:
    draft = ok(world.acme.post("batches", json={"name": "import", "success_at": 0.5}), 201)
    assert (draft["state"], draft["owner"]) == ("draft", "acme")
    members = {"jobs": [{"kind": "convert", "arguments": {"path": "a"}}, {"kind": "reject"}]}
    added = ok(world.acme.post(f"batches/{draft['id']}/jobs", json=members), 201)["jobs"]
    assert [job["batch"] for job in added] == [draft["id"]] * 2
    assert ok(world.acme.post(f"batches/{draft['id']}/publish"))["total"] == 2
    refused(world.acme.post(f"batches/{draft['id']}/jobs", json=members), 409, "BATCH_CLOSED")
    world.app.run_until_idle()
    assert ok(world.acme.get(f"batches/{draft['id']}"))["state"] == "ready"
    listed = ok(world.acme.get("batches", params={"limit": 1}))
    assert [batch["id"] for batch in listed["batches"]] == [draft["id"]] and listed["cursor"] == draft["id"]
    refused(world.other.get(f"batches/{draft['id']}"), 404, "BATCH_NOT_FOUND")
    refused(world.other.post(f"batches/{draft['id']}/jobs", json=members), 404, "BATCH_NOT_FOUND")


def test_a_public_task_follows_a_batch_that_is_settled(world: World) -> None:
    wanted = {"name": "import", "on_settled": "reject"}
    draft = ok(world.acme.post("batches", json=wanted), 201)
    ok(world.acme.post("jobs", json={"kind": "convert", "arguments": {"path": "a"}, "batch": draft["id"]}), 201)
    ok(world.acme.post(f"batches/{draft['id']}/publish"))
    world.app.run_until_idle()
    follow_up = ok(world.acme.get("jobs", params={"kind": "reject", "limit": 1}))["jobs"][0]
    assert world.app.job(follow_up["id"]).arguments == {"why": draft["id"]}
    assert follow_up["owner"] == "acme" and follow_up["batch"] is None
    for task in ("hidden", "missing"):
        refused(world.acme.post("batches", json=wanted | {"on_settled": task}), 404, "UNKNOWN_KIND")


def test_a_task_that_takes_no_batch_cannot_follow_one(world: World) -> None:
    refused(world.acme.post("batches", json={"name": "a", "on_settled": "count"}), 400, "VALIDATION_ERROR")


@drives("retry_batch", "cancel_batch")
def _batch_again(world: World) -> None:
    draft = ok(world.acme.post("batches", json={"name": "import"}), 201)
    ok(world.acme.post("jobs", json={"kind": "reject", "batch": draft["id"]}), 201)
    refused(world.other.post("jobs", json={"kind": "reject", "batch": draft["id"]}), 404, "BATCH_NOT_FOUND")
    ok(world.acme.post(f"batches/{draft['id']}/publish"))
    world.app.run_until_idle()
    again = ok(world.acme.post(f"batches/{draft['id']}/retry", json={"reason": "fixed"}))
    assert len(again["retried"]) == 1 and again["batch"]["state"] == "processing"
    assert ok(world.acme.post(f"batches/{draft['id']}/cancel"))["cancelled"] == 1


# Redrives


@drives("redrive", "redrives", "redrive_status", "cancel_redrive")
def _redrive(world: World) -> None:
    world.failed()
    body = {"filter": {"kind": "reject", "state": "failed"}, "rate": "5/s", "canary": 0, "reason": "fixed"}
    dry = ok(world.acme.post("redrives", json={**body, "dry_run": True}))
    assert dry["matched"] >= 1 and dry["is_dry"]
    begun = ok(world.acme.post("redrives", json=body))
    assert begun["owner"] == "acme" and begun["actor"] is None
    assert world.app.redrive_status(begun["id"]).actor == "acme's key"
    assert ok(world.acme.get(f"redrives/{begun['id']}"))["id"] == begun["id"]
    assert begun["id"] in [each["id"] for each in ok(world.acme.get("redrives"))["redrives"]]
    assert ok(world.other.get("redrives"))["redrives"] == []
    refused(world.other.get(f"redrives/{begun['id']}"), 404, "REDRIVE_NOT_FOUND")
    assert ok(world.acme.delete(f"redrives/{begun['id']}", params={"reason": "enough"}))["state"] == "cancelled"


@drives("bulk_cancel", "bulk_snooze", "bulk_run_now")
def _bulk(world: World) -> None:
    job = world.queued(delay="1h")
    for verb, more in (("cancel", {}), ("snooze", {"delay": "2h"}), ("run-now", {})):
        found = ok(world.acme.post(f"jobs/bulk/{verb}", json={"ids": [job.id], "dry_run": True, **more}))
        assert found["matched"] == 1 and found["verb"] == verb.replace("-", "_")


# What only an administrator may do


@drives("services", "service", "open_service", "close_service", "automate_service")
def _services(world: World) -> None:
    assert "gateway" in [each["name"] for each in ok(world.admin.get("services"))["services"]]
    assert ok(world.admin.post("services/gateway/open", json={"reason": "maintenance"}))["forced"] == "open"
    assert ok(world.admin.post("services/gateway/close"))["forced"] == "closed"
    assert ok(world.admin.post("services/gateway/auto"))["forced"] is None
    assert ok(world.admin.get("services/gateway"))["actor"] is None
    assert ok(world.admin.get("services/site:a/b"))["name"] == "site:a/b"
    refused(world.admin.get("services/gatway"), 404, "UNKNOWN_SERVICE")
    refused(world.acme.get("services"), 403, "FORBIDDEN")


@drives("pauses", "pause", "resume")
def _pauses(world: World) -> None:
    made = ok(world.admin.post("pauses", json={"queue": "bulk", "duration": "30m", "reason": "disk"}))
    assert (made["what"], made["name"], made["actor"], made["reason"]) == ("queue", "bulk", "ann", "disk")
    assert made in ok(world.admin.get("pauses"))["pauses"]
    assert ok(world.admin.delete("pauses", params={"queue": "bulk"}))["ended"]["name"] == "bulk"
    assert ok(world.admin.delete("pauses", params={"queue": "bulk"})) == {"ended": None}
    refused(world.admin.post("pauses", json={"queue": "nowhere"}), 404, "UNKNOWN_QUEUE")
    refused(world.admin.post("pauses", json={}), 400, "VALIDATION_ERROR")


@drives("limits", "budgets", "queues", "spending", "forget_owner")
def _limits(world: World) -> None:
    assert all(spent["owner"] for spent in ok(world.admin.get("budgets"))["budgets"])
    job = world.queued()
    (queue,) = [each for each in ok(world.admin.get("queues"))["queues"] if each["name"] == job.queue]
    assert queue["ready"] >= 1 and queue["paused"] is None
    assert job.kind in queue["unhandled"], "no worker runs"
    assert ok(world.admin.get("limits")).keys() == {"limits"}
    assert ok(world.admin.get("limits", params={"owner": "acme"}))["spending"]["owner"] == "acme"
    assert ok(world.acme.get("owners/acme/spending"))["budget"]["per_day"] == 1000
    foreign = refused(world.other.get("owners/acme/spending"), 404, "NO_BUDGET")
    assert foreign["message"] == "there is no retry budget of owner 'acme'"
    refused(world.admin.get("owners/unknown/spending"), 404, "NO_BUDGET")
    world.queued(owner="leaver")
    assert ok(world.admin.delete("owners/leaver", params={"dry_run": "true"}))["matched"] == 1
    assert ok(world.admin.delete("owners/leaver", params={"reason": "closed"}))["verb"] == "forget"


@drives("policies", "packs", "reclassify")
def _policies(world: World) -> None:
    assert "http" in [pack["name"] for pack in ok(world.admin.get("policies/packs"))["packs"]]
    found = ok(world.admin.get("policies", params={"kind": "reject"}))
    assert [policy["max_attempts"] for policy in found["policies"]] == [1] and found["file"] is None
    refused(world.admin.get("policies", params={"kind": "nothing"}), 404, "UNKNOWN_KIND")
    world.failed()
    seen = ok(world.admin.post("policies/reclassify", json={"filter": {"kind": "reject"}, "limit": 5}))
    assert seen["jobs"] and not seen["is_applied"]


@drives("schedules", "run_schedule", "remove_schedule")
def _schedules(world: World) -> None:
    assert [each["name"] for each in ok(world.admin.get("schedules"))["schedules"]] == ["nightly"]
    assert ok(world.admin.post("schedules/nightly/run"), 201)["kind"] == "nightly"
    refused(world.admin.post("schedules/daily/run"), 404, "UNKNOWN_SCHEDULE")
    refused(world.admin.delete("schedules/nightly"), 409, "SCHEDULE_IN_USE")
    refused(world.admin.delete("schedules/daily"), 404, "UNKNOWN_SCHEDULE")


@drives("projections", "drop_projection")
def _projections(world: World) -> None:
    world.queued()
    world.app.project("totals", lambda *_: None)
    assert [each["name"] for each in ok(world.admin.get("projections"))["projections"]] == ["totals"]
    assert ok(world.admin.delete("projections/totals")) == {"dropped": "totals"}
    refused(world.admin.delete("projections/totals"), 404, "UNKNOWN_PROJECTION")


@drives("workers_status", "duties", "run_duty")
def _duties(world: World) -> None:
    status = ok(world.admin.get("admin/workers/status"))
    assert status["duties"] == ok(world.admin.get("admin/duties"))["duties"] != []
    assert all(isinstance(worker["is_alive"], bool) for worker in status["workers"])
    assert ok(world.admin.post("admin/duties/prune/run"))["duty"] == "prune"
    refused(world.admin.post("admin/duties/sweep/run"), 404, "UNKNOWN_DUTY")


@drives("stuck", "process_stuck", "stuck_jobs")
def _stuck(world: World) -> None:
    assert ok(world.admin.get("admin/jobs/stuck")) == {"jobs": []}
    assert ok(world.admin.post("admin/jobs/process-stuck", json={"limit": 5})) == {"jobs": []}
    assert ok(world.admin.post("admin/jobs/stuck")) == {"jobs": []}


@drives("pause_schedulers", "resume_schedulers")
def _schedulers(world: World) -> None:
    body = {"duration": "30m", "types": ["STUCK_JOBS", "FAILED_JOBS"]}
    paused = ok(world.admin.post("admin/retry-scheduler/pause", json=body))["pauses"]
    assert [pause["name"] for pause in paused] == ["reclaim", "retry"]
    assert all(pause["until"] for pause in paused)
    ended = ok(world.admin.post("admin/retry-scheduler/resume"))["ended"]
    assert [pause["name"] for pause in ended] == ["reclaim", "retry"]
    refused(world.admin.post("admin/retry-scheduler/pause", json={"types": ["SHOES"]}), 404, "UNKNOWN_DUTY")


@drives("doctor")
def _doctor(world: World) -> None:
    found = ok(world.admin.get("doctor"))
    assert "store.reachable" in [finding["code"] for finding in found["findings"]]


@drives("metrics", "read_metrics")
def _metrics(world: World) -> None:
    text = world.client("admin").get("/metrics")
    assert (text.status_code, text.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "\n# TYPE mulligan_jobs_failed_total counter\n" in text.text
    assert "jobs_failed_total" in [metric["name"] for metric in ok(world.admin.get("metrics"))["metrics"]]


@drives("alerts", "set_alert", "silence_alert", "unsilence_alert")
def _alerts(world: World) -> None:
    board = ok(world.admin.get("alerts"))
    # No worker has ever evaluated them: the doctor looks.
    assert (board["is_stale"], board["evaluated_by"]) == (True, None)
    assert "workers.alive" in [alert["check"] for alert in board["alerts"] if alert["state"] == "firing"]
    terms = {"check": "jobs.waiting", "threshold": "5m", "after": 0, "reason": "we promise ten minutes"}
    rule = ok(world.admin.put("alerts", json=terms))
    assert (rule["threshold"], rule["unit"], rule["after"], rule["is_edited"]) == (300.0, "seconds", 0.0, True)
    assert rule["edited_by"]
    silenced = ok(world.admin.post("alerts/jobs.waiting/silence", json={"duration": "2h", "reason": "import"}))
    assert (silenced["is_silenced"], silenced["silenced_because"]) == (True, "import")
    assert not ok(world.admin.post("alerts/jobs.waiting/unsilence"))["is_silenced"]
    assert not ok(world.admin.put("alerts", json={"check": "jobs.waiting"}))["is_edited"]
    refused(world.admin.put("alerts", json={"check": "jobs.dept", "is_on": False}), 404, "UNKNOWN_CHECK")
    refused(world.admin.put("alerts", json={"check": "jobs.depth", "threshold": 0}), 400, "VALIDATION_ERROR")
    refused(world.admin.post("alerts/jobs.dept/silence"), 404, "UNKNOWN_CHECK")


@drives("healthz", "readyz")
def _health(world: World) -> None:
    assert ok(world.anonymous.get("/healthz")) == ok(world.anonymous.get("/readyz")) == {"status": "ok"}
    assert ok(world.client("acme").get("/readyz")) == {"status": "ok"}, "components are the operators' affair"
    found = {each["name"]: each for each in ok(world.client("admin").get("/readyz"))["components"]}
    assert {"store", "schema", "workers", "projection", "notifications"} <= found.keys()
    assert {f"duty {duty.name}" for duty in DUTIES} <= found.keys()
    assert (found["workers"]["code"], found["workers"]["level"] != "ok") == ("workers.alive", True)


@pytest.mark.parametrize("drive", dict.fromkeys(DRIVEN.values()), ids=lambda drive: drive.__name__.strip("_"))
def test_a_route_does_what_its_verb_does(world: World, drive: Callable[[World], None]) -> None:
    drive(world)


def test_every_route_is_driven() -> None:
    assert {route.name for route in ROUTES} == DRIVEN.keys()


def test_an_operation_has_one_name() -> None:
    names = [route.name for route in ROUTES]
    assert len(names) == len(set(names))


def test_the_history_of_a_batch_is_for_its_owner_and_that_of_a_service_for_administrators(world: World) -> None:
    batch = world.app.batch("letters", owner="acme").publish()
    (published, *_) = ok(world.acme.get("history", params={"batch": batch.id}))["events"][::-1]
    assert (published["type"], published["batch"]) == ("batch.published", batch.id)
    world.app.service("gateway").open(reason="maintenance")
    world.app.service("gateway").auto()
    told = ok(world.admin.get("history", params={"service": "gateway", "limit": 2}))["events"]
    assert [event["data"]["to"] for event in told] == ["auto", "open"]
    refused(world.acme.get("history", params={"service": "gateway"}), 403, "FORBIDDEN")
    refused(world.admin.get("history"), 400, "VALIDATION_ERROR")
    refused(world.admin.get("history", params={"service": "gatway"}), 404, "UNKNOWN_SERVICE")
    refused(world.acme.get("history", params={"batch": "none"}), 404, "BATCH_NOT_FOUND")
