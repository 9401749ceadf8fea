"""Errors of pages in a browser driven by Playwright.

Chromium reports what happened to a page as `net::ERR_…` in the message. Rules look there, so they also match failures
from the log.
"""

from mulligan.failure.rule import Rule

_ERROR = "playwright._impl._errors.Error"

RULES: tuple[Rule, ...] = (
    Rule("TIMEOUT", "retryable", when="playwright._impl._errors.TimeoutError", name="browser.timeout"),
    Rule("TIMEOUT", "retryable", when=_ERROR, message=r"net::ERR_(CONNECTION_)?TIMED_OUT", name="browser.net_timeout"),
    Rule("PROGRAM_MISSING", "retryable", when=_ERROR, message="executable doesn't exist", name="browser.missing"),
    # Of a page that took too much memory, or of a browser that was killed. Another attempt has another browser.
    Rule(
        "PROGRAM_CRASHED",
        "retryable",
        when=_ERROR,
        message="(page|target) crashed|browser has been closed|frame was detached",
        name="browser.crashed",
    ),
    Rule("CERTIFICATE_INVALID", "final", when=_ERROR, message="net::ERR_CERT_", name="browser.certificate"),
    Rule("HTTP_3XX", "final", when=_ERROR, message="net::ERR_TOO_MANY_REDIRECTS", name="browser.redirects"),
    Rule(
        "URL_INVALID",
        "final",
        when=_ERROR,
        message="cannot navigate to invalid URL|net::ERR_(INVALID_URL|UNSAFE_PORT|UNKNOWN_URL_SCHEME|UNSAFE_REDIRECT)",
        name="browser.url",
    ),
    # A file to save: there is nothing to show, now or later.
    Rule("NOT_A_PAGE", "final", when=_ERROR, message="download is starting", name="browser.download"),
    Rule(
        "HTTP_BROKEN",
        "retryable",
        when=_ERROR,
        message=r"net::ERR_(ABORTED|EMPTY_RESPONSE|INVALID_|CONTENT_|INCOMPLETE_|RESPONSE_|HTTP_RESPONSE_|HTTP2_)",
        name="browser.broken",
    ),
    # Refused, reset, unknown host, unreachable, TLS, proxy.
    Rule("NETWORK", "retryable", when=_ERROR, message="net::ERR_", name="browser.network"),
)
