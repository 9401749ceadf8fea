"""A reader of the log in a process of its own: follows by cursor while everything breaks, and writes down what it saw.

Run as `python -m chaos.reader URL PLACE`, until SIGTERM and the end of the log.
"""

import json
import signal
import sys
import threading
from pathlib import Path

from mulligan.errors import StoreError
from mulligan.records.event import Event
from mulligan.store import open_store
from mulligan.values.moment import microseconds


def written(event: Event) -> str:
    """The whole event in one line, to be compared."""
    fields = [
        event.position,
        event.type,
        event.job,
        event.kind,
        event.attempt,
        microseconds(event.at),
        event.code,
        event.data,
    ]
    return json.dumps(fields, sort_keys=True, default=str)


def main(url: str, place: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    store, after = open_store(url), 0
    with Path(place).open("w") as file:
        while True:
            is_last = stop.is_set()
            try:
                page = store.events(after=after, limit=200)
            except StoreError:
                stop.wait(0.03)
                continue
            file.writelines(f"{written(event)}\n" for event in page)
            file.flush()
            if page:
                after = page[-1].position
            elif is_last:
                break
            else:
                stop.wait(0.05)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
