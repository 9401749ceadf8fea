"""One call of the gateway: a PDF file out, XML in, and every failure as an exception that the rules know."""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, BinaryIO, cast

import httpx2
from lxml import etree

from apps.pdfxml.codes import message_of
from apps.pdfxml.settings import GATEWAY
from mulligan import FinalError, RetryableError, attempt

CHUNK = 2**16
# Of an answer that refuses a file.
LONGEST_REFUSAL = 10_000
# One plain sentence. Paths, markup and anything that looks technical are not for people.
SAFE = re.compile(r"[A-Z][A-Za-z0-9 ,'\u2019()-]{1,117}\.")
# About this very file. 408 and 429 are about the moment, and the rules know them.
REFUSALS = frozenset(range(400, 500)) - {408, 429}


class GatewayCall:
    """Streams both ways, so that memory does not depend on the size of the file."""

    def __init__(self, client: httpx2.Client, url: str, *, timeout: timedelta, largest: int) -> None:
        self._client, self._url, self._seconds, self._largest = client, url, timeout.total_seconds(), largest

    def convert(self, source: BinaryIO, mapping: str) -> Iterator[bytes]:
        """The XML, chunk by chunk. It is checked to be well-formed: half an answer raises an error before its end."""
        began, status = time.monotonic(), None
        try:
            with self._open(source, mapping) as response:
                status = response.status_code
                self._check(response)
                yield from _checked(self._chunks(response, began))
        except GeneratorExit:
            raise
        except (httpx2.TransportError, TimeoutError, RetryableError):
            # An answer that breaks off is a failure of the gateway, whatever its status was.
            attempt().called(GATEWAY, status=status, seconds=time.monotonic() - began, ok=False)
            raise
        except Exception:
            attempt().called(GATEWAY, status=status, seconds=time.monotonic() - began)
            raise
        attempt().called(GATEWAY, status=status, seconds=time.monotonic() - began)

    def _open(self, source: BinaryIO, mapping: str):  # type: ignore[no-untyped-def]
        return self._client.stream(
            "POST",
            f"{self._url}/convert",
            params={"mapping": mapping},
            content=iter(lambda: source.read(CHUNK), b""),
            headers={"content-type": "application/pdf", "accept": "application/xml"},
            timeout=self._seconds,
        )

    def _check(self, response: httpx2.Response) -> None:
        if response.status_code in REFUSALS:
            raise FinalError(_line_of(response), code="GW_4XX")
        response.raise_for_status()
        if response.status_code != 200:
            raise RetryableError(code="GW_5XX")

    def _chunks(self, response: httpx2.Response, began: float) -> Iterator[bytes]:
        """Bounded as a whole, in time and size: a timeout of the client is one of each single read."""
        size = 0
        for chunk in response.iter_bytes(CHUNK):
            size += len(chunk)
            if time.monotonic() - began > self._seconds:
                raise TimeoutError("the gateway answers too slowly")
            if size > self._largest:
                raise RetryableError(f"the answer has more than {self._largest:,} bytes", code="GW_5XX")
            yield chunk


def is_healthy(url: str) -> bool:
    """Ask the gateway how it is. Used by the breaker as its probe."""
    return httpx2.get(f"{url}/health", timeout=5).status_code == 200


def _line_of(response: httpx2.Response) -> str:
    """Our own line, with what the gateway says if that is safe."""
    line, said = message_of("GW_4XX", is_final=True), None
    with suppress(httpx2.HTTPError, ValueError, AttributeError):
        if int(response.headers.get("content-length", "0")) <= LONGEST_REFUSAL:
            response.read()
            said = response.json().get("message")
    return f"{line} {said}" if isinstance(said, str) and SAFE.fullmatch(said) else line


class _Forgetting:
    """What the parser tells its findings: nothing is kept, or the whole file would be in memory."""

    def start(self, _tag: str, _attributes: object) -> None: ...

    def close(self) -> None: ...


def _checked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same chunks. Raises RetryableError if they are not XML: a gateway that is ill may answer anything."""
    target = cast("Any", _Forgetting())
    parser = etree.XMLParser(target=target, resolve_entities=False, no_network=True, huge_tree=True)
    try:
        for chunk in chunks:
            parser.feed(chunk)
            yield chunk
        parser.close()
    except etree.XMLSyntaxError as problem:
        raise RetryableError(code="GW_5XX") from problem
