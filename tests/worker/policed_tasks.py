"""An app with a policies file, at the top of a module: children import it."""

import os

from mulligan import App, RetryPolicy

app = App("sqlite:///jobs.db", policies="policies.yaml")


@app.task(isolate=True, retry=RetryPolicy(1))
def fails() -> int:
    raise ValueError(f"in process {os.getpid()}")
