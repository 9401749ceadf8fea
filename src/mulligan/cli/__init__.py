"""The terminal: parse, ask the app, render. Nothing is imported before it is needed."""

import sys


def main() -> None:
    from mulligan.cli.root import root

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that lacks a character gets its number instead of an error.
            stream.reconfigure(errors="backslashreplace")
    root(prog_name="mulligan")
