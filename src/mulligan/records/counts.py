"""How many jobs match a filter, by one of their fields."""

from collections.abc import Mapping
from dataclasses import dataclass

# What jobs are counted by, and the column.
COLUMNS = {
    "state": "state",
    "kind": "kind",
    "queue": "queue",
    "code": "error_code",
    "last_code": "last_code",
    "group": "error_group",
    "owner": "owner",
    "batch": "batch",
}
# A count reads at most this many jobs of each state.
MOST_READ = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The jobs that match a filter, the largest number first. Jobs without the field, such as a batch, are left out.

    The numbers are exact up to 10,000 jobs of a state. Above, `at_least` is True: not all jobs were read, and the
    numbers may be higher.
    """

    by: str
    groups: Mapping[str, int]
    total: int
    at_least: bool
