"""What the failures of a conversion mean. Refusals of the gateway are raised as final errors by the call itself."""

import errno

from mulligan import Rule

RULES = (
    Rule("GW_TIMEOUT", "retryable", status=408),
    Rule("GW_TIMEOUT", "retryable", cause=(TimeoutError, "httpx2.TimeoutException")),
    # A 429 is left to the engine: it waits for as long as the gateway asks.
    Rule("GW_5XX", "retryable", status=range(500, 600)),
    Rule("GW_5XX", "retryable", cause="httpx2.TransportError"),
    # A full disk is not emptied within seconds.
    Rule("IO_ERROR", "final", errno=(errno.ENOSPC, errno.EDQUOT)),
    Rule("IO_ERROR", "retryable", when=OSError),
)
