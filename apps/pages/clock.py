"""The time for sessions and for what pages show."""

from collections.abc import Callable
from datetime import UTC, datetime

Now = Callable[[], datetime]


def system_time() -> datetime:
    return datetime.now(UTC)
