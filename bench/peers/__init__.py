"""One file a peer: how it is enqueued to, asked and worked. None imports the library of another."""

import importlib
import sys
from collections.abc import Callable
from typing import cast

from bench.lineup import Entry
from bench.peer import Peer


def adapt(entry: Entry) -> Peer:
    module = importlib.import_module(f"bench.peers.{entry.module}")
    return cast("Callable[[Entry], Peer]", module.adapt)(entry)


def worker_of_ours(entry: Entry, *options: str) -> list[str]:
    """The command that runs `work` of the peer's module."""
    return [sys.executable, "-m", "bench.worker", entry.name, *options]
