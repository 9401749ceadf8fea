"""The engine's metrics, with the ten codes as the only values of their label."""

import re

from apps.pdfxml.codes import public_code
from mulligan import App

LABEL = re.compile(r'(?<=[{,])error_code="([^"]*)"')


def write_metrics(app: App) -> str:
    """All metrics in the text format of Prometheus. Series that have the same labels now are added up."""
    lines: dict[str, float | None] = {}
    for line in app.metrics().splitlines():
        if line.startswith("#") or "error_code=" not in line:
            lines[line] = None
            continue
        series, _, value = LABEL.sub(lambda found: f'error_code="{public_code(found[1])}"', line).rpartition(" ")
        lines[series] = (lines.get(series) or 0) + float(value)
    return "".join(f"{line}\n" if value is None else f"{line} {value:.17g}\n" for line, value in lines.items())
