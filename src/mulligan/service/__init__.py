"""Breaker, budget and pace of a service: one state machine, pure. The stores keep its values and pass the time in.

    claim     due(…), then if is_restricted(…): allowance(…), and what was not found goes back by `without`
    settle    a Call for each success, and for each verdict that knows: it is `ok` unless it blames the service. The
              worker's tally.add(calls), then unless is_quiet(…): heard(…) with the figures(…) of all tallies.
              held(…) for a verdict that holds the service, and borne_because(…) for each failed call
    the door  retry_allowance(…)
    by hand   forced(…)

The row is written where the standing is another one than before, and it was read under its lock: tokens and counts
change within an epoch.
"""

from mulligan.service.allowance import (
    FAILS_FAST,
    Allowance,
    allowance,
    fails_fast,
    holds,
    retry_allowance,
    service_open,
    stays_refused,
)
from mulligan.service.breaker import due, forced, heard, held, is_quiet
from mulligan.service.charge import MOST_RETURNS, borne_because
from mulligan.service.config import Service, ServiceBook
from mulligan.service.state import BreakerState, Change, Forced, ServiceState, Turn, is_milestone, is_restricted
from mulligan.service.window import CallCounts, Figures, ServiceCall, figures

__all__ = [
    "FAILS_FAST",
    "MOST_RETURNS",
    "Allowance",
    "BreakerState",
    "CallCounts",
    "Change",
    "Figures",
    "Forced",
    "Service",
    "ServiceBook",
    "ServiceCall",
    "ServiceState",
    "Turn",
    "allowance",
    "borne_because",
    "due",
    "fails_fast",
    "figures",
    "forced",
    "heard",
    "held",
    "holds",
    "is_milestone",
    "is_quiet",
    "is_restricted",
    "retry_allowance",
    "service_open",
    "stays_refused",
]
