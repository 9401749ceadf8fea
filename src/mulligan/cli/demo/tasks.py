"""The tasks of the demo, written like those of any app: `mulligan worker mulligan.cli.demo.tasks:app` runs them.

A gateway converts documents over HTTP. The tasks let errors propagate; the rules define what each error means.
"""

import asyncio
import json
import os
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from mulligan import App, ErrorCode, Exponential, Fixed, RetryPolicy, Rule, Service, attempt

GATEWAY_TIMEOUT = 1.0

# The first matching rule decides: 429 before the other 4xx, responses before connection errors.
GATEWAY_RULES = [
    # The response's Retry-After sets the wait.
    Rule("RATE_LIMITED", "rate_limited", status=429, name="http.429"),
    Rule("GW_4XX", "final", status=range(400, 500), name="http.4xx"),
    Rule("GW_5XX", "retryable", status=range(500, 600), name="http.5xx"),
    Rule("GW_TIMEOUT", "retryable", message="timed out", name="timeout"),
    Rule("GW_DOWN", "retryable", when=(URLError, ConnectionError), name="connection"),
]

CATALOGUE = [
    ErrorCode("GW_DOWN", "The converter can't be reached. We'll retry.", "retryable", status=502, blames_service=True)
]

# The tasks of `guarded` name it; here it lets a worker go on with their jobs.
GATEWAY = Service("gateway", window=12, min_calls=6, cooldown="5s")

app = App(rules=GATEWAY_RULES, catalogue=CATALOGUE, services=[GATEWAY])


@app.task(retry=RetryPolicy(max_attempts=4, backoff=Exponential("0.5s", factor=2, jitter=0.2)), timeout="10s")
def convert(document: str, mapping: str) -> str:
    """Convert a document and return the address of the result."""
    attempt().progress(0.1, "sent to the gateway")
    return ask_gateway("/convert", document=document, mapping=mapping)


@app.task(retry=RetryPolicy(max_attempts=3, backoff=Fixed("0.5s")), priority="low", timeout="10s")
async def preview(document: str) -> str:
    """Draw the first page for a user who is waiting for it."""
    return await asyncio.to_thread(ask_gateway, "/preview", document=document)


def ask_gateway(path: str, **wanted: str) -> str:
    request = Request(  # noqa: S310 - the address is ours
        os.environ.get("GATEWAY_URL", "http://127.0.0.1:8080") + path,
        data=json.dumps(wanted).encode(),
        # The key is the same in every attempt of a job, so that work done before a crash is not repeated.
        headers={"Content-Type": "application/json", "Idempotency-Key": attempt().idempotency_key(path)},
    )
    try:
        with urlopen(request, timeout=GATEWAY_TIMEOUT) as answer:  # noqa: S310
            return str(json.load(answer)["address"])
    except HTTPError as refusal:
        # Closes the connection; the rules can still read status and headers.
        refusal.close()
        raise
