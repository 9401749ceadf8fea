"""The demo's tasks, written as in an app of your own: `mulligan worker mulligan.cli.demo.tasks:app` runs them.

Documents are converted by a gateway that is reached over HTTP. The tasks say what they want and let
errors rise; what an error means is said once, in the rules.
"""

import asyncio
import json
import os
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from mulligan import App, ErrorCode, Exponential, Fixed, RetryPolicy, Rule, attempt

GATEWAY_TIMEOUT = 1.0

# The first rule that matches decides: 429 before the other 4xx, answers before connections without one.
GATEWAY_RULES = [
    # The wait is taken from the answer's own Retry-After.
    Rule("RATE_LIMITED", "rate_limited", status=429, name="http.429"),
    Rule("GW_4XX", "final", status=range(400, 500), name="http.4xx"),
    Rule("GW_5XX", "retryable", status=range(500, 600), name="http.5xx"),
    Rule("GW_TIMEOUT", "retryable", message="timed out", name="timeout"),
    Rule("GW_DOWN", "retryable", when=(URLError, ConnectionError), name="connection"),
]

app = App(
    rules=GATEWAY_RULES,
    catalogue=[ErrorCode("GW_DOWN", "The converter can't be reached. We'll retry.", "retryable", status=502)],
)


@app.task(retry=RetryPolicy(max_attempts=4, backoff=Exponential("0.5s", factor=2, jitter=0.2)), timeout="10s")
def convert(document: str, mapping: str) -> str:
    """Convert a document; the address of the result."""
    attempt().progress(0.1, "sent to the gateway")
    return ask_gateway("/convert", document=document, mapping=mapping)


@app.task(retry=RetryPolicy(max_attempts=3, backoff=Fixed("0.5s")), priority="low", timeout="10s")
async def preview(document: str) -> str:
    """Draw the first page, for somebody who is looking at the screen now."""
    return await asyncio.to_thread(ask_gateway, "/preview", document=document)


def ask_gateway(path: str, **wanted: str) -> str:
    request = Request(  # noqa: S310 - the address is ours
        os.environ.get("GATEWAY_URL", "http://127.0.0.1:8080") + path,
        data=json.dumps(wanted).encode(),
        # The same key in every attempt of a job: work that was done before a crash is not done again.
        headers={"Content-Type": "application/json", "Idempotency-Key": attempt().idempotency_key(path)},
    )
    try:
        with urlopen(request, timeout=GATEWAY_TIMEOUT) as answer:  # noqa: S310
            return str(json.load(answer)["address"])
    except HTTPError as refusal:
        # It holds its connection open; its status and headers, which the rules look at, stay.
        refusal.close()
        raise
