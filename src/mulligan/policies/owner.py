"""Owners: their weights, limits and retry budgets."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from mulligan.errors import BadRate
from mulligan.failure.checks import bad_value, check_integer, check_number, set_fields
from mulligan.policies.queue import check_concurrency, check_name
from mulligan.records.limit import EVERY_OWNER
from mulligan.records.rate import Rate, parse_rate

LEAST_WEIGHT, MOST_WEIGHT = 0.001, 1_000.0
MOST_IN_A_PERIOD = 2**53
OVER_BUDGET = ("wait", "fail")

OwnerChanges = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Owner:
    """Values that are left out come from `"*"`, which stands for every owner; else there is no limit, and a weight of
    1."""

    name: str
    weight: float | None = None
    concurrency: int | None = None
    submit_rate: Rate | float | str | None = None
    max_live: int | None = None
    retries_per_day: int | None = None
    retries_per_month: int | None = None
    cost_per_month: int | None = None
    over_budget: str | None = None

    def __post_init__(self) -> None:
        of = f"of owner {self.name!r:.80}"
        counted = ("max_live", "retries_per_day", "retries_per_month", "cost_per_month")
        set_fields(
            self,
            name=check_owner_name("the name of an owner", self.name),
            weight=_weight(f"weight {of}", self.weight),
            concurrency=check_concurrency(f"concurrency {of}", self.concurrency),
            submit_rate=_rate(f"submit_rate {of}", self.submit_rate),
            over_budget=_over_budget(f"over_budget {of}", self.over_budget),
            **{name: _count(f"{name} {of}", getattr(self, name)) for name in counted},
        )

    @property
    def rate(self) -> Rate | None:
        """The limit on submissions."""
        return None if self.submit_rate is None else parse_rate(self.submit_rate)

    def with_defaults(self, other: "Owner") -> "Owner":
        """This owner, with the other's values where this one has none."""
        left_out = {key: getattr(other, key) for key in KEYS if getattr(self, key) is None}
        return replace(self, **left_out)


KEYS = tuple(field.name for field in fields(Owner) if field.name != "name")


def check_owner_name(what: str, name: Any) -> str:
    """Raises BadPolicy."""
    if "*" in check_name(what, name) and name != EVERY_OWNER:
        raise bad_value(what, name, "the name of one owner, or '*' for every owner; patterns are not possible")
    return str(name)


def check_owner(key: str, value: Any) -> None:
    """Raises BadPolicy."""
    given: dict[str, Any] = {key: value}
    Owner("sound", **given)


def _weight(what: str, weight: Any) -> float | None:
    return None if weight is None else check_number(what, weight, least=LEAST_WEIGHT, most=MOST_WEIGHT)


def _count(what: str, value: Any) -> int | None:
    return None if value is None else check_integer(what, value, least=0, most=MOST_IN_A_PERIOD)


def _rate(what: str, rate: Any) -> Rate | None:
    try:
        return None if rate is None else parse_rate(rate)
    except BadRate:
        raise bad_value(what, rate, BadRate.allowed) from None


def _over_budget(what: str, value: Any) -> str | None:
    if value is not None and value not in OVER_BUDGET:
        raise bad_value(what, value, "one of " + ", ".join(map(repr, OVER_BUDGET)))
    return str(value) if value is not None else None
