"""One of several processes that submit, retry, cancel and run captures at the same time. It may be killed anywhere."""

import random
from dataclasses import replace
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from apps.screenshots.access import Caller, Refusal
from apps.screenshots.captures import Captures, Order
from screenshots_make import make_screenshots

from live import working


def hammer(told: Connection, url: str, folder: str, endpoint: str, seed: int, operations: int) -> None:
    """Send the name of each operation that is done. A worker runs beside them."""
    sites: Any = SimpleNamespace(endpoint=endpoint)
    screenshots = make_screenshots(url, Path(folder), sites, credits=25)
    # What it holds when it is killed is taken over after two seconds.
    screenshots.app.settings = replace(screenshots.app.settings, worker_lease_ttl=timedelta(seconds=2))
    captures, chance = Captures(screenshots), random.Random(seed)
    with working(screenshots.app, concurrency=4):
        for _ in range(operations):
            told.send(act(captures, Caller("acme", f"hammer {seed}"), chance))


def act(captures: Captures, caller: Caller, chance: random.Random) -> str:
    known = [job.id for job in captures.list(caller).jobs]
    verb = chance.choice(["submit", "submit", "retry", "retry", "cancel"])
    # A host for each: one that fails again and again would be held.
    url = f"http://{chance.randrange(10**9)}.nowhere.test/"
    try:
        if verb == "submit" or not known:
            captures.submit(caller, chance.choice([Order(url=url), Order(url="http://private.test/")]))
        else:
            getattr(captures, verb)(caller, chance.choice(known))
    except Refusal as refusal:
        return f"{verb}: {refusal.code}"
    return verb


def run_worker(url: str, folder: str, endpoint: str) -> None:
    """Work until nothing is left."""
    sites: Any = SimpleNamespace(endpoint=endpoint)
    make_screenshots(url, Path(folder), sites, credits=10**6).app.run_until_idle(timeout="10m", concurrency=10)
