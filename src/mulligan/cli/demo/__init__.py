"""The demo: real jobs, real workers, and a real gateway that fails in several ways. `mulligan demo` runs it."""


def run_demo(*, seconds: float | None = None, database: str | None = None, as_json: bool = False) -> int:
    """Run for `seconds`, or until Ctrl-C. Returns 0 if no accepted job was lost."""
    # Imported here, because workers of the demo import this package too.
    from mulligan.cli.demo.session import run_session

    return run_session(seconds=seconds, database=database, as_json=as_json)
