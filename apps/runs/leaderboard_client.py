"""Asks the leaderboard for runs and replays. What it answers is bounded in size and time."""

from datetime import timedelta
from time import monotonic
from typing import Annotated, Any

import httpx2
from msgspec import DecodeError, Meta, Raw, Struct, json

from apps.runs.configuration import Configuration

LARGEST_LISTING = 2 * 2**20
PAGE = 200


class TooLarge(Exception):
    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is larger than {limit:,} bytes")


class BadListing(Exception):
    """The list of runs cannot be read."""


# What an answer of the leaderboard can raise.
FAILURES = (httpx2.HTTPError, TimeoutError, TooLarge, BadListing)


def is_asked_to_wait(failure: Exception) -> bool:
    """The leaderboard wants fewer requests, whatever they are about."""
    return isinstance(failure, httpx2.HTTPStatusError) and failure.response.status_code == 429


class Listing(Struct, frozen=True):
    """`position` is where the next listing continues."""

    runs: list[Raw]
    position: Annotated[int, Meta(ge=0, lt=2**53)]


def open_client() -> httpx2.Client:
    return httpx2.Client(trust_env=False, headers={"Accept-Encoding": "identity", "User-Agent": "mulligan-runs"})


class LeaderboardClient:
    def __init__(self, http: httpx2.Client, configuration: Configuration) -> None:
        self._http = http
        self._base = configuration.leaderboard.rstrip("/")
        self._timeout = timedelta(seconds=configuration.timeout)

    def list_runs(self, category: str, after: int) -> Listing:
        """The runs of a category that were submitted after a position. Raises BadListing and the errors of HTTP."""
        parameters = {"category": category, "after": after, "limit": PAGE}
        body = self._get("/api/runs", LARGEST_LISTING, parameters)
        try:
            return json.decode(body, type=Listing)
        except (DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise BadListing(str(problem)) from None

    def fetch_replay(self, run: str, limit: int) -> bytes:
        """Raises TooLarge and the errors of HTTP."""
        return self._get(f"/api/runs/{run}/replay", limit)

    def _get(self, path: str, limit: int, parameters: dict[str, Any] | None = None) -> bytes:
        end, body = monotonic() + self._timeout.total_seconds(), bytearray()
        timeout = self._timeout.total_seconds()
        with self._http.stream("GET", self._base + path, params=parameters, timeout=timeout) as response:
            response.raise_for_status()
            # Raw: a small answer may inflate to a huge one.
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > limit:
                    raise TooLarge(limit)
                # A server that sends a byte now and then never exceeds the timeout of a read.
                if monotonic() > end:
                    raise TimeoutError(f"the answer took longer than {timeout:g} s")
        return bytes(body)
