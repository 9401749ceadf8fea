"""Moments as integers, as the stores keep them."""

from datetime import UTC, datetime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(moment: datetime) -> int:
    """A moment as integer milliseconds since 1970, as ids contain it."""
    return microseconds(moment) // 1_000


def microseconds(moment: datetime) -> int:
    """A moment as integer microseconds since 1970: exact, sortable, and the same in every store."""
    delta = moment - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
