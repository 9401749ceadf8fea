"""`python -m bench.worker PEER`: one worker process of a peer that has no command of its own."""

import importlib
import sys

from bench.lineup import BY_NAME

if __name__ == "__main__":
    entry = BY_NAME[sys.argv[1]]
    importlib.import_module(f"bench.peers.{entry.module}").work(entry, *sys.argv[2:])
