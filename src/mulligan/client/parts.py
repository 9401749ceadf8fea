"""Many ids in several requests: a query holds some hundreds of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from urllib.parse import quote_plus

from mulligan.records.counts import Counts
from mulligan.records.job import JobFilter

# Of the ids, in characters. A server takes 16 KiB, and a proxy before it often 8 KiB for the whole line of a request.
LONGEST = 7_000


def split_ids(ids: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The ids in their order, as many at a time as fit."""
    part: list[str] = []
    length = 0
    for each in ids:
        size = len("&ids=") + len(quote_plus(each))
        if part and length + size > LONGEST:
            yield tuple(part)
            part, length = [], 0
        part.append(each)
        length += size
    if part:
        yield tuple(part)


def split_filter(wanted: JobFilter | None, cursor: str | None = None) -> list[JobFilter]:
    """Filters that fit, which together select the same jobs. Those of an earlier filter come first in a list of jobs.

    Jobs after `cursor` suffice: lists go by id, the highest first.
    """
    if wanted is None or not wanted.ids:
        return [wanted or JobFilter()]
    ids = sorted((each for each in wanted.ids if cursor is None or each < cursor), reverse=True)
    return [replace(wanted, ids=part) for part in split_ids(ids)]


def last_id(part: JobFilter) -> str:
    """The cursor after all jobs of a part."""
    assert part.ids
    return min(part.ids)


def add_counts(parts: Sequence[Counts]) -> Counts:
    """The counts of all parts together, the largest number first."""
    if len(parts) == 1:
        return parts[0]
    groups = sum((Counter(part.groups) for part in parts), Counter[str]())
    return replace(
        parts[0],
        groups=dict(groups.most_common()),
        total=sum(part.total for part in parts),
        at_least=any(part.at_least for part in parts),
    )
