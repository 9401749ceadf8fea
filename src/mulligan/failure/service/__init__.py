"""Breaker, budget and pace of a service: one state machine, pure. The stores keep its values and pass the time in."""

from mulligan.failure.service.allowance import Allowance, allowance, fails_fast, retry_allowance, service_open
from mulligan.failure.service.changes import due, forced, heard, held
from mulligan.failure.service.config import Service, ServiceBook
from mulligan.failure.service.standing import Change, Forced, Standing, State, Turn, is_restricted
from mulligan.failure.service.tally import Call, Figures, Tally, figures

__all__ = [
    "Allowance",
    "Call",
    "Change",
    "Figures",
    "Forced",
    "Service",
    "ServiceBook",
    "Standing",
    "State",
    "Tally",
    "Turn",
    "allowance",
    "due",
    "fails_fast",
    "figures",
    "forced",
    "heard",
    "held",
    "is_restricted",
    "retry_allowance",
    "service_open",
]
