"""The worker's log on stderr, as text for people or JSON for collectors. No text of others can forge a line."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mulligan.cli.safe import safe, safe_lines

if TYPE_CHECKING:
    from mulligan.settings import Settings

# What every record has; the rest was given by whoever logged it.
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line = f"{moment:%Y-%m-%d %H:%M:%S}Z {record.levelname:<7} {record.name}: {safe(record.getMessage())}"
        return line + "".join(f"\n    | {part}" for part in safe_lines(self._trace(record)).splitlines())

    def _trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        given = {name: value for name, value in vars(record).items() if name not in STANDARD}
        return json.dumps(given | document, default=str)


def configure(settings: "Settings") -> None:
    """Log as the settings say, unless the app has set up logging itself."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    root.addHandler(handler)
    root.setLevel(settings.log_level)
