"""Whether the server is up, and whether it can work; and whole ids from parts of them."""

from typing import Any, Literal

import msgspec

from mulligan.errors import AmbiguousId, BatchNotFound, JobNotFound, RedriveNotFound, StoreError
from mulligan.records.key import Scope
from mulligan.web.route import Call, One, Routes

routes = Routes("Server", prefix="")
ids = Routes("Jobs")


class Health(msgspec.Struct, kw_only=True):
    status: Literal["ok"] = "ok"


@routes.get("/healthz", scope=None, answer=One(Health))
async def healthz(call: Call) -> Any:  # noqa: ARG001
    """Whether this process answers. It does not ask the store."""
    return Health()


@routes.get("/readyz", scope=None, answer=One(Health), errors=[StoreError])
def readyz(call: Call) -> Any:
    """Whether requests can be answered: the store can be reached and has the right schema."""
    call.console.check_store()
    return Health()


class WholeId(msgspec.Struct, kw_only=True):
    id: str


@ids.get(
    "/ids/{what}/{part}",
    scope=Scope.JOBS_READ,
    answer=One(WholeId),
    errors=[AmbiguousId, JobNotFound, BatchNotFound, RedriveNotFound],
)
def find_id(call: Call, what: str, part: str) -> Any:
    """The whole id of a `job`, a `batch` or a `redrive` from at least six characters of its beginning or its end."""
    return WholeId(id=call.console.find_id(what, part))
