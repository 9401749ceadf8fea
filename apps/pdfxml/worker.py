"""Workers on other machines: `mulligan worker apps.pdfxml.worker:app`."""

import os

from apps.pdfxml.app import create
from apps.pdfxml.settings import read_settings

app = create(read_settings(os.environ)).app
