"""The demo: real jobs, real workers and a real gateway that has bad days. `mulligan demo` plays it."""


def run_demo(*, seconds: float | None = None, database: str | None = None, as_json: bool = False) -> int:
    """Play for so many seconds, or until Ctrl-C; 0 if no accepted job was lost."""
    # Imported when needed: a worker of the demo's tasks passes here too and has no use for the stage.
    from mulligan.cli.demo.play import play

    return play(seconds=seconds, database=database, as_json=as_json)
