"""Faults in front of the real converter, switched on and off by the control route of a test or a demonstration."""

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

HALF = b"<?xml version='1.0'?><document><page"
KINDS = ("status", "hang", "wait", "drop", "garbage")


@dataclass(frozen=True, slots=True)
class Fault:
    """`kind` is what goes wrong: "status" answers `status`, "hang" answers nothing, "wait" converts only when the fault
    is over, "drop" closes the connection in the middle of an answer, and "garbage" answers half of an XML file. `share`
    is the fraction of the calls that it meets, `times` how many calls."""

    kind: str
    status: int = 503
    retry_after: str | None = None
    share: float = 1.0
    times: int | None = None

    @classmethod
    def read(cls, document: Any) -> "Fault":
        """Raises ValueError or TypeError for terms that cannot work."""
        fault = cls(**document)
        if fault.kind not in KINDS or not 0 < fault.share <= 1 or not 200 <= fault.status <= 599:
            raise ValueError(f"kind is one of {', '.join(KINDS)}, share above 0 and at most 1, status from 200 to 599")
        return fault


class FaultInjection:
    """Meets calls of `/convert`, and of `/health` if it meets all calls, before the converter sees them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.fault: Fault | None = None
        self._changed = asyncio.Event()
        self._calls = itertools.count(1)
        self.met = 0

    def set(self, fault: Fault | None) -> None:
        """Replace the fault. Calls that hang are let go: their connections are closed."""
        self.fault, self._calls, self.met = fault, itertools.count(1), 0
        self._changed.set()
        self._changed = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._due(scope)
        if fault is None:
            await self._app(scope, receive, send)
            return
        match fault.kind:
            case "status":
                headers = [] if fault.retry_after is None else [(b"retry-after", fault.retry_after.encode())]
                await _answer(send, fault.status, b'{"message": "A fault."}', b"application/json", headers)
            case "garbage":
                await _answer(send, 200, HALF, b"application/xml", [])
            case "drop":
                await _answer(send, 200, HALF, b"application/xml", [], length=1_000)
            case "wait":
                await self._changed.wait()
                await self._app(scope, receive, send)
            case "hang":
                await self._hang(receive)

    async def _hang(self, receive: Receive) -> None:
        """Answer nothing until the caller gives up or the fault is over."""
        ends = [asyncio.ensure_future(_disconnect(receive)), asyncio.ensure_future(self._changed.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    def _due(self, scope: Scope) -> Fault | None:
        fault, path = self.fault, scope.get("path")
        if fault is None or scope["type"] != "http" or path not in ("/convert", "/health"):
            return None
        if path == "/health":
            return fault if fault.share == 1 and fault.times is None else None
        number = next(self._calls)
        # Evenly spread: of ten calls with a share of 0.1, it is the tenth.
        is_met = int(number * fault.share) > int((number - 1) * fault.share)
        if not is_met or (fault.times is not None and self.met >= fault.times):
            return None
        self.met += 1
        return fault


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(
    send: Send,
    status: int,
    body: bytes,
    media: bytes,
    headers: list[tuple[bytes, bytes]],
    length: int | None = None,
) -> None:
    """With a `length` beyond that of the body, the server closes the connection where the body ends."""
    size = str(len(body) if length is None else length).encode()
    all_headers = [(b"content-type", media), (b"content-length", size), *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})
