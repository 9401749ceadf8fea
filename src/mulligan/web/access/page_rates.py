"""How often something may be done on pages beside the dashboard, such as signing up."""

from datetime import timedelta
from hashlib import sha256

from mulligan.app import App
from mulligan.records.admission import AdmissionRequest, RateExceeded
from mulligan.records.rate import parse_rate


def charge(app: App, use: str, rate: str, subject: str) -> timedelta | None:
    """Take one of what the `rate`, such as "10/m", allows a subject for a use. Return how long to wait if nothing is
    left, else None. All servers on one database share it. The subject is stored as a hash."""
    name = f"page/{use}/{sha256(subject.encode('utf-8', 'replace')).hexdigest()}"
    (answer,) = app.store.admit([AdmissionRequest(subject=name, rate=parse_rate(rate))])
    return answer.retry_after if isinstance(answer, RateExceeded) else None
