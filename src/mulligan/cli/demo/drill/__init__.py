"""The outage drill: two services go down under load, one with breaker, budget and pace, one with backoff alone."""


def run_drill(*, seconds: float | None = None, as_json: bool = False) -> int:
    """Run it in `seconds`. Returns 0 at its end and after Ctrl-C."""
    # Imported here, because workers of the drill import this package too.
    from mulligan.cli.demo.drill.session import run_session

    return run_session(seconds=seconds, as_json=as_json)
