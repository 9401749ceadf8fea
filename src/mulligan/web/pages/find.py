"""Find: the search box. What is found alone is opened; otherwise a page says what can be found."""

import re
from collections.abc import Callable
from typing import Annotated, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta
from starlette.responses import RedirectResponse, Response

from mulligan.console.ids import SHORTEST_PART
from mulligan.errors import AmbiguousId, GroupNotFound, MulliganError
from mulligan.records.job import JobFilter
from mulligan.records.key import Scope
from mulligan.values.ids import is_id
from mulligan.web.pages.page import SEE_OTHER, PageCall, Pages, View

pages = Pages("Find")

LONGEST = 200
_ID = re.compile(rf"[0-9a-f-]{{{SHORTEST_PART},36}}")


class FindQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    q: Annotated[str, Meta(max_length=LONGEST)] = ""


class Found(NamedTuple):
    """What was found, in words, and the page that shows it."""

    what: str
    path: str


@pages.page("/find", scope=Scope.JOBS_READ)
def find(call: PageCall, query: FindQuery) -> View | Response:
    wanted = query.q.strip()
    found = search(call, wanted) if wanted else []
    if len(found) == 1:
        root = call.request.scope.get("root_path", "")
        return RedirectResponse(root + found[0].path, status_code=SEE_OTHER)
    return View("find.html", wanted=wanted, found=found)


def search(call: PageCall, wanted: str) -> list[Found]:
    """Ids first: nothing else looks like one."""
    if _ID.fullmatch(wanted.lower()) and (found := find_ids(call, wanted.lower())):
        return found
    return [each for look in (find_code, find_kind, find_owner, find_service) if (each := look(call, wanted))]


def find_ids(call: PageCall, part: str) -> list[Found]:
    found = [Found(f"Failure group {part}", f"/failures/{part}")] if is_group(call, part) else []
    for what, path in (("job", "jobs"), ("batch", "batches"), ("redrive", "redrives")):
        found += [Found(f"{what.capitalize()} {each}", f"/{path}/{each}") for each in complete(call, what, part)]
    return found


def is_group(call: PageCall, part: str) -> bool:
    try:
        call.console.failure(part)
    except GroupNotFound:
        return False
    return True


def complete(call: PageCall, what: str, part: str) -> tuple[str, ...]:
    """The ids that begin or end with a part. A complete id is one only if there is such a record."""
    read: dict[str, Callable[[str], object]] = {
        "job": call.console.job,
        "batch": call.console.find_batch,
        "redrive": call.console.redrive_status,
    }
    try:
        found = call.console.find_id(what, part)
        if is_id(part):
            read[what](found)
    except AmbiguousId as several:
        return several.candidates
    except MulliganError:
        return ()
    return (found,)


def find_code(call: PageCall, wanted: str) -> Found | None:
    code = wanted.upper()
    if not call.console.failures(code=code, limit=1).groups:
        return None
    return Found(f"Failures with {code}", f"/?{urlencode({'code': code, 'state': 'all'})}")


def find_kind(call: PageCall, wanted: str) -> Found | None:
    return _jobs(call, f"Jobs of kind {wanted}", kind=wanted)


def find_owner(call: PageCall, wanted: str) -> Found | None:
    return _jobs(call, f"Jobs of owner {wanted}", owner=wanted) if call.caller.is_admin else None


def _jobs(call: PageCall, what: str, **terms: str) -> Found | None:
    if not call.console.counts(JobFilter(**terms)).total:  # type: ignore[arg-type]
        return None
    return Found(what, f"/jobs?{urlencode(terms)}")


def find_service(call: PageCall, wanted: str) -> Found | None:
    names = {each.name for each in call.console.services()} if call.caller.is_admin else set()
    return Found(f"Service {wanted}", f"/services/{quote(wanted)}") if wanted in names else None
