"""The types of parameters and bodies that several routes share."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from mulligan.console.arguments import LARGEST_PAGE
from mulligan.failure.redact import LONGEST_TEXT
from mulligan.records.rate import parse_rate
from mulligan.values.check import LONGEST_STRING
from mulligan.values.duration import parse
from mulligan.web.problems import Problem
from mulligan.web.route import Call
from mulligan.web.written import ParsedBy

String = Annotated[str, Meta(max_length=LONGEST_STRING)]
Duration = (
    Annotated[str, Meta(description='such as "90s", "5m" or "1h30m"', max_length=100, examples=["30m"])]
    | Annotated[float, Meta(description="seconds"), ParsedBy(parse)]
)
Rate = (
    Annotated[str, Meta(description='such as "50/s", "600/m" or "1000/h"', max_length=100, examples=["50/s"])]
    | Annotated[float, Meta(description="jobs a second"), ParsedBy(parse_rate)]
)
PageSize = Annotated[int, Meta(ge=1, le=LARGEST_PAGE)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
ReasonGiven = Annotated[str, Meta(max_length=LONGEST_TEXT, description="Why; it is stored with the change.")]

Reveal = Annotated[
    bool,
    Meta(
        description="Show the secrets in arguments and results, which are masked otherwise. It needs the scope "
        "`args:reveal`, and is recorded in the audit."
    ),
]


class Reason(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    reason: ReasonGiven | None = None


class Limited(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: PageSize = 50


def given(**terms: Any) -> dict[str, Any]:
    """Those that the request has."""
    return {name: value for name, value in terms.items() if value is not UNSET and value is not None}


def admin_only(call: Call, **terms: Any) -> dict[str, Any]:
    """The given terms, which only an administrator may give: an owner would get around its limits with them."""
    found = given(**terms)
    if found and not call.caller.is_admin:
        name = next(iter(found))
        place = "?" if call.request.method == "GET" else "$"
        message = f"{name!r} can be given with an administrator's key only"
        raise Problem(403, "FORBIDDEN", message, path=f"{place}.{name}")
    return found
