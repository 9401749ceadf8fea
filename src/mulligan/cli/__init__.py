"""The command line: parse, call a verb of App, print. Nothing is imported before it is needed."""

import sys


def main() -> None:
    from mulligan.cli.root import root

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Characters that a terminal lacks are printed as escapes, instead of raising.
            stream.reconfigure(errors="backslashreplace")
    root(prog_name="mulligan")
