"""Doctor: what is wrong with store, workers and jobs, with the remedy."""

from collections.abc import Sequence

from mulligan.records.finding import Finding, Level
from mulligan.records.key import Scope
from mulligan.web.pages.page import PageCall, Pages, View
from mulligan.web.pages.sentence import Sentence, failed, held
from mulligan.web.pages.words import plural, verb

pages = Pages("Doctor")

ORDER = (Level.PROBLEM, Level.WARNING, Level.OK)


def describe_findings(findings: Sequence[Finding]) -> Sentence:
    levels = [finding.level for finding in findings]
    problems, warnings = levels.count(Level.PROBLEM), levels.count(Level.WARNING)
    lead = (f"{plural(levels.count(Level.OK), 'check')} found nothing.",)
    if not problems and not warnings:
        return Sentence(("Everything is in order.",), lead)
    bad, odd = failed(plural(problems, "problem")), held(plural(warnings, "warning"))
    if problems and warnings:
        return Sentence(("There are ", bad, " and ", odd, "."), lead)
    return Sentence((f"There {verb(problems or warnings, 'is', 'are')} ", bad if problems else odd, "."), lead)


@pages.page("/doctor", scope=Scope.JOBS_READ, is_admin=True)
def show_doctor(call: PageCall) -> View:
    found = sorted(call.console.doctor(), key=lambda finding: ORDER.index(finding.level))
    return View(
        "doctor.html",
        says=describe_findings(found),
        findings=[finding for finding in found if finding.level is not Level.OK],
        fine=[finding for finding in found if finding.level is Level.OK],
    )
