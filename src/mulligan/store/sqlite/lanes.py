"""The lanes that one claim may take from."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from mulligan.store.services import Grant

Place: TypeAlias = dict[str, Any]
LaneHead: TypeAlias = tuple[int, int, str, Place]


class Open:
    """`restricted` are services that are not simply closed: of them no more is taken than was granted."""

    def __init__(self, heads: Sequence[LaneHead], restricted: frozenset[str], grants: Sequence[Grant]) -> None:
        self.heads = heads
        self.grants = [grant.values for grant in grants]
        self._left = dict.fromkeys(restricted, 0)
        self._only: dict[str, str | None] = {}
        for values in self.grants:
            self._left[values["service"]], self._only[values["service"]] = values["number"], values["kind"]

    def has_room(self, place: Place) -> bool:
        service = place["service"]
        return service not in self._left or (
            self._left[service] > 0 and self._only.get(service) in (None, place["kind"])
        )

    def take(self, place: Place) -> None:
        if place["service"] in self._left:
            self._left[place["service"]] -= 1


def services_of(heads: Sequence[LaneHead]) -> list[str]:
    return sorted({place["service"] for *_, place in heads if place["service"]})
