"""Doctor: what is wrong with store, workers and jobs, with the remedy."""

from collections.abc import Sequence

from mulligan.records.finding import Check, Finding, Level
from mulligan.records.key import Scope
from mulligan.web.pages.page import PageCall, Pages, View
from mulligan.web.pages.sentence import Sentence, failed, held
from mulligan.web.pages.words import plural

pages = Pages("Doctor")

ORDER = (Level.PROBLEM, Level.WARNING, Level.OK)


def describe_findings(findings: Sequence[Finding]) -> Sentence:
    levels = [finding.level for finding in findings]
    problems, warnings = levels.count(Level.PROBLEM), levels.count(Level.WARNING)
    fine = plural(levels.count(Level.OK), "check")
    if not problems and not warnings:
        return Sentence(("Everything is in order.",), (f"{fine} found nothing wrong.",))
    bad, odd = failed(plural(problems, "problem")), held(plural(warnings, "warning"))
    found = (bad, " and ", odd) if problems and warnings else (bad,) if problems else (odd,)
    return Sentence((*found, "."), (f"{fine} found nothing wrong.",))


# The pages on which something can be done about a finding, by the beginning of its code.
PLACES = {
    "jobs.failed": "/",
    "jobs.stuck": "/workers",
    "jobs.failing": "/",
    "jobs.codes": "/",
    "jobs.retries": "/retries",
    "jobs.": "/queues",
    "workers.": "/workers",
    "leases.": "/duties",
    "duties.paused": "/queues",
    "duties.late": "/duties",
    "services.": "/services",
    "notify.": "/notifications",
    "policies.": "/policies",
    "log.projection": "/duties",
}


def place_of(check: Check) -> str:
    """Empty if no page helps."""
    return next((path for code, path in PLACES.items() if check.startswith(code)), "")


@pages.page("/doctor", scope=Scope.JOBS_READ, is_admin=True)
def show_doctor(call: PageCall) -> View:
    found = sorted(call.console.doctor(), key=lambda finding: ORDER.index(finding.level))
    return View(
        "doctor.html",
        says=describe_findings(found),
        findings=[(finding, place_of(finding.code)) for finding in found if finding.level is not Level.OK],
        fine=[finding for finding in found if finding.level is Level.OK],
    )
