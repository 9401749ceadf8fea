"""Versions of the app: those that run, and when each was first seen."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from mulligan.explain.context import is_alive
from mulligan.records.failure_group import FailureGroup
from mulligan.web.pages.page import PageCall


def known_versions(running: Mapping[str, datetime], groups: Sequence[FailureGroup]) -> dict[str, datetime]:
    """When each version was first seen: by the start of its workers, or by a failure."""
    versions = dict(running)
    for group in groups:
        for seen in group.versions:
            versions[seen.name] = min(seen.first_seen_at, versions.get(seen.name, seen.first_seen_at))
    return versions


def running_versions(call: PageCall) -> dict[str, datetime]:
    """The versions of living workers, each with the start of its oldest one. An owner sees no workers."""
    found: dict[str, datetime] = {}
    if call.caller.is_admin:
        for worker in call.console.workers():
            if worker.version and worker.started_at and is_alive(worker, call.now):
                found[worker.version] = min(worker.started_at, found.get(worker.version, worker.started_at))
    return found
