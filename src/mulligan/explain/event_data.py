"""The data of an event, read defensively: other versions may have written less, more, or other values."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mulligan.values.duration import LONGEST


class EventData:
    def __init__(self, data: object) -> None:
        self._data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}

    def __contains__(self, name: str) -> bool:
        return self._data.get(name) is not None

    def part(self, name: str) -> "EventData":
        return EventData(self._data.get(name))

    def parts(self, name: str) -> "dict[str, EventData]":
        """The data of several things, by name."""
        value = self._data.get(name)
        return {str(key): EventData(part) for key, part in value.items()} if isinstance(value, Mapping) else {}

    def text(self, name: str) -> str:
        """The string; empty if there is none."""
        value = self._data.get(name)
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> list[str]:
        value = self._data.get(name)
        return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []

    def integer(self, name: str) -> int | None:
        value = self._data.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def duration(self, name: str) -> timedelta | None:
        """A number of seconds as a duration."""
        value = self._data.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return timedelta(seconds=value) if 0 <= value <= LONGEST.total_seconds() else None
