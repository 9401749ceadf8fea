"""Errors of HTTP clients: httpx and httpx2, requests, aiohttp, urllib.

A status and a TLS error match whatever raised them; the other errors only if a client raised them. The libraries are
not imported: their errors are matched by name.
"""

from mulligan.failure.rule import Rule
from mulligan.failure.verdict import Failure

_CLIENTS = ("httpx.", "httpx2.", "requests.", "urllib3.", "aiohttp.", "urllib.error.", "http.client.")


def _client(failure: Failure) -> bool:
    """raised by an HTTP client"""
    return any(name.startswith(_CLIENTS) for name in (*failure.types, *failure.causes))


def _httpx(*names: str) -> tuple[str, ...]:
    return tuple(f"{library}.{name}" for library in ("httpx", "httpx2") for name in names)


def _requests(*names: str) -> tuple[str, ...]:
    return tuple(f"requests.exceptions.{name}" for name in names)


def _aiohttp(*names: str) -> tuple[str, ...]:
    return tuple(f"aiohttp.client_exceptions.{name}" for name in names)


_REDIRECTS = (
    *_httpx("TooManyRedirects"),
    *_requests("TooManyRedirects"),
    *_aiohttp("TooManyRedirects"),
)
_URL = (
    *_httpx("InvalidURL", "UnsupportedProtocol"),
    *_requests("InvalidURL", "InvalidSchema", "MissingSchema"),
    *_aiohttp("InvalidURL", "NonHttpUrlClientError"),
    "http.client.InvalidURL",
)
_TIMEOUT = (
    "TimeoutError",
    *_httpx("TimeoutException"),
    *_requests("Timeout"),
    "urllib3.exceptions.TimeoutError",
    *_aiohttp("ServerTimeoutError"),
)
_BROKEN = (
    *_httpx("RemoteProtocolError", "DecodingError"),
    *_requests("ChunkedEncodingError", "ContentDecodingError"),
    "urllib3.exceptions.ProtocolError",
    *_aiohttp("ClientPayloadError"),
    "aiohttp.http_exceptions.HttpProcessingError",
    "http.client.HTTPException",
    "urllib.error.ContentTooShortError",
)
_CONNECTION = (
    *_httpx("NetworkError", "ProxyError"),
    *_requests("ConnectionError"),
    *_aiohttp("ClientConnectionError"),
    "urllib.error.URLError",
)

RULES: tuple[Rule, ...] = (
    Rule("HTTP_3XX", "final", when=_client, cause=_REDIRECTS, name="http.redirects"),
    Rule("HTTP_3XX", "final", status=range(300, 400), name="http.3xx"),
    Rule("RATE_LIMITED", "rate_limited", status=429, name="http.429"),
    Rule("TIMEOUT", "retryable", status=408, name="http.408"),
    # Conflict, misdirected, locked, failed dependency, too early: each is temporary.
    Rule("HTTP_BUSY", "retryable", status=(409, 421, 423, 424, 425), name="http.busy"),
    Rule("HTTP_4XX", "final", status=range(400, 500), name="http.4xx"),
    # A Retry-After of a 503 lengthens the delay, but the attempt counts: it is an outage, not a rate limit.
    Rule("HTTP_5XX", "retryable", status=range(500, 600), name="http.5xx"),
    Rule("URL_INVALID", "final", when=_client, cause=_URL, name="http.url"),
    Rule("URL_INVALID", "final", when="urllib.error.URLError", message="unknown url type", name="http.scheme"),
    # A person has to renew or trust the certificate, and can retry manually then.
    Rule("CERTIFICATE_INVALID", "final", cause="ssl.SSLCertVerificationError", name="http.certificate"),
    # Unknown names too: resolvers report them for names that are just being published.
    Rule("NETWORK", "retryable", when=_client, cause=("socket.gaierror", "socket.herror"), name="http.dns"),
    # Before timeouts: old versions of urllib3 derive it from them.
    Rule("NETWORK", "retryable", when=_client, cause="ConnectionRefusedError", name="http.refused"),
    Rule("TIMEOUT", "retryable", when=_client, cause=_TIMEOUT, name="http.timeout"),
    Rule(
        "NETWORK",
        "retryable",
        when=_client,
        cause=("ConnectionError", *_aiohttp("ServerDisconnectedError")),
        name="http.reset",
    ),
    Rule("NETWORK", "retryable", cause="ssl.SSLError", name="http.tls"),
    Rule("HTTP_BROKEN", "retryable", when=_client, cause=_BROKEN, name="http.broken"),
    Rule("NETWORK", "retryable", when=_client, cause=_CONNECTION, name="http.connection"),
)
