"""The outage drill: two real services go down under load, one with breaker, budget and pace, one with backoff alone."""


def run_drill(*, seconds: float | None = None, as_json: bool = False) -> int:
    """Play it in so many seconds; 0 when it came to its end, or was ended by Ctrl-C."""
    # Imported when needed: a worker of the drill's tasks passes here too.
    from mulligan.cli.demo.drill.play import play

    return play(seconds=seconds, as_json=as_json)
