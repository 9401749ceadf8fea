"""What blocks a job, of `app.blocked_by`, in words and as a filter."""

from typing import NamedTuple

from mulligan.records.subscription import DELIVER_KIND
from mulligan.web.pages.job_filter import Params

_PAUSED_DUTIES = {"retry": "retries are paused", "promote": "promoting delayed jobs is paused"}
_LIVE = ["waiting", "queued"]


class Block(NamedTuple):
    """`what` is `service`, `pause`, `limit`, `budget` or `batch`; `part` is the sort of `name` below it."""

    what: str
    part: str
    name: str

    @property
    def words(self) -> str:
        """A part of a sentence: `queue bulk is paused`."""
        match self.what, self.part:
            case "service", _:
                return f"service {self.name} is not available"
            case "pause", "duty":
                return _PAUSED_DUTIES.get(self.name, f"the duty {self.name} is paused")
            case "pause", part:
                return f"{part} {self.name} is paused"
            case "limit", part:
                return f"no slot of {part} {self.name} is free"
            case "budget", "owner":
                return f"the retries of owner {self.name} are used up"
            case "budget", part:
                return f"the retry budget of {part} {self.name} is used up"
            case "batch", _:
                return "its batch is not published"
        return f"{self.what} {self.name}"

    @property
    def params(self) -> Params:
        """The filter that finds all jobs that it may concern; empty if there is none."""
        field = self.part or self.what
        if field == "sender":
            # Jobs are not found by it. All that have one are of this kind.
            return {"state": _LIVE, "kind": [DELIVER_KIND]}
        return {} if field == "duty" else {"state": _LIVE, field: [self.name]}


def to_block(key: str) -> Block:
    """`limit/kind/convert` and `service/gateway` as their parts."""
    what, _, name = key.partition("/")
    if what in ("pause", "limit", "budget"):
        part, _, name = name.partition("/")
        return Block(what, part, name)
    return Block(what, "", name)
