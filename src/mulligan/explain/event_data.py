"""An event's data, read with care: other versions may have written less, more, or something else."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mulligan.values.duration import LONGEST


class Facts:
    def __init__(self, data: object) -> None:
        self._data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}

    def __contains__(self, name: str) -> bool:
        return self._data.get(name) is not None

    def part(self, name: str) -> "Facts":
        return Facts(self._data.get(name))

    def parts(self, name: str) -> "dict[str, Facts]":
        """What is said of each of several things, by their names."""
        value = self._data.get(name)
        return {str(key): Facts(part) for key, part in value.items()} if isinstance(value, Mapping) else {}

    def text(self, name: str) -> str:
        """The text, empty when there is none."""
        value = self._data.get(name)
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> list[str]:
        value = self._data.get(name)
        return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []

    def whole(self, name: str) -> int | None:
        value = self._data.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def duration(self, name: str) -> timedelta | None:
        """A number of seconds as a duration."""
        value = self._data.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return timedelta(seconds=value) if 0 <= value <= LONGEST.total_seconds() else None
