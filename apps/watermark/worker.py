"""Workers beside the one of the pages: `mulligan worker apps.watermark.worker:app`, with the same environment."""

import os

from apps.watermark.app import Options, Watermark

app = Watermark(os.environ.get("DATABASE_URL") or "sqlite:///watermark.db", Options.read()).open().app
