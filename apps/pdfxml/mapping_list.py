"""The mappings to choose from, as the gateway lists them."""

import threading
from datetime import datetime, timedelta
from typing import Annotated

import httpx2
from msgspec import DecodeError, Meta, Struct, json

from apps.pages.clock import Now, system_time

REMEMBERED = timedelta(seconds=30)
# After a failure it is asked again sooner, but not for every page.
REMEMBERED_FAILURE = timedelta(seconds=5)
PATIENCE_SECONDS = 2


class OfferedMapping(Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=50)]
    about: Annotated[str, Meta(max_length=200)]


class Answer(Struct, frozen=True):
    mappings: Annotated[tuple[OfferedMapping, ...], Meta(max_length=100)]


class MappingList:
    """While the gateway does not answer, the last list stays; it is empty if there was none."""

    def __init__(self, gateway_url: str, *, now: Now = system_time) -> None:
        self._url, self._now = f"{gateway_url}/mappings", now
        self._lock = threading.Lock()
        self._last: tuple[OfferedMapping, ...] = ()
        self._until: datetime | None = None

    def current(self) -> tuple[OfferedMapping, ...]:
        with self._lock:
            if self._until is None or self._now() >= self._until:
                self._refresh()
            return self._last

    def _refresh(self) -> None:
        try:
            answer = httpx2.get(self._url, timeout=PATIENCE_SECONDS, trust_env=False).raise_for_status()
            self._last, remembered = json.decode(answer.content, type=Answer).mappings, REMEMBERED
        except (httpx2.HTTPError, DecodeError):
            remembered = REMEMBERED_FAILURE
        self._until = self._now() + remembered
