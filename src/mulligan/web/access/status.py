"""The status of the answer to an error, for the audit. It logs nothing: the endpoint makes the answer."""

from mulligan.errors import NotAllowed
from mulligan.web.problems import STATUS, Problem


def status_of(error: Exception) -> int:
    if isinstance(error, Problem):
        return error.status
    if isinstance(error, NotAllowed) and error.status is not None and 400 <= error.status < 500:
        return error.status
    return next((status for kind, (status, _) in STATUS.items() if isinstance(error, kind)), 500)
