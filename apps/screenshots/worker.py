"""A worker without pages, for more machines: `mulligan worker apps.screenshots.worker:app`."""

import os

from apps.screenshots.app import Screenshots

app = Screenshots(os.environ.get("DATABASE_URL") or "sqlite:///screenshots.db").app
