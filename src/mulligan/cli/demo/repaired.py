"""The app of the demo with a gateway that has no faults and reads every document.

`mulligan worker mulligan.cli.demo.repaired:app` runs the jobs that the demo left, and those that you retry.
"""

import os

from mulligan.cli.demo.faults import Phase
from mulligan.cli.demo.gateway import Gateway
from mulligan.cli.demo.tasks import app

__all__ = ["app"]

gateway = Gateway(lambda: Phase.HEALTHY, reads=lambda _document: True).start()
os.environ |= gateway.environment
