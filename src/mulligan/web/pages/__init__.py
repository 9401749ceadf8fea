"""The dashboard: pages that show what failed and why, and forms that put it right. They decide nothing: they ask the
console of the person who is signed in, and render."""

from mulligan.web.pages import (
    alerts,
    audit,
    batches,
    bulk,
    doctor,
    duties,
    failure_group,
    failures,
    find,
    help_page,
    job,
    jobs,
    keys,
    notifications,
    policies,
    queues,
    redrives,
    retries,
    retry,
    schedules,
    services,
    workers,
)
from mulligan.web.pages.page import Page, Pages

GROUPS: tuple[Pages, ...] = (
    failures.pages,
    failure_group.pages,
    retry.pages,
    redrives.pages,
    find.pages,
    jobs.pages,
    bulk.pages,
    job.pages,
    batches.pages,
    services.pages,
    retries.pages,
    workers.pages,
    queues.pages,
    duties.pages,
    schedules.pages,
    policies.pages,
    alerts.pages,
    notifications.pages,
    keys.pages,
    audit.pages,
    doctor.pages,
    help_page.pages,
)

PAGES: list[Page] = [page for group in GROUPS for page in group.declared]

__all__ = ["GROUPS", "PAGES"]
