"""The demo's app beside a gateway that was mended: no faults, and it reads every document.

`mulligan worker mulligan.cli.demo.mended:app` runs what the demo left behind, and what you retry by hand.
"""

import os

from mulligan.cli.demo.gateway import Gateway
from mulligan.cli.demo.tasks import app
from mulligan.cli.demo.weather import Phase

__all__ = ["app"]

gateway = Gateway(lambda: Phase.HEALTHY, reads=lambda _document: True).start()
os.environ |= gateway.environment
