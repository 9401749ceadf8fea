"""Metrics for Prometheus, as text below the root and as JSON in the API."""

from typing import Any

from starlette.responses import Response

from mulligan.records.exposition import CONTENT_TYPE
from mulligan.records.key import Scope
from mulligan.records.metric import Metric
from mulligan.web.access.terms import WithoutKey
from mulligan.web.route import Call, Many, Routes, Text

text = Routes("Server", prefix="")
routes = Routes("Statistics")


@text.get(
    "/metrics", scope=Scope.JOBS_READ, is_admin=True, answer=Text(("text/plain",)), without_key=WithoutKey.SCRAPERS
)
def metrics(call: Call) -> Response:
    """All metrics in the text format of Prometheus.

    Addresses in `MULLIGAN_METRICS_NETWORKS` need no key, unless they come through a proxy.
    """
    return Response(call.console.metrics(), headers={"Content-Type": CONTENT_TYPE})


@routes.get("/metrics", scope=Scope.JOBS_READ, is_admin=True, answer=Many("metrics", Metric))
def read_metrics(call: Call) -> Any:
    """All metrics as records, without a prefix."""
    return call.console.read_metrics()
