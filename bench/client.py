"""`python -m bench.client PEER PART SIZES`: measure one part of one peer, in the environment of the peer.

Standard output ends with one line of JSON: the figures, or the trouble.
"""

import asyncio
import json
import logging
import signal
import sys

from bench.lineup import BY_NAME
from bench.marks import given
from bench.measurement import Figures, Measurement
from bench.parts import PARTS
from bench.peers import adapt
from bench.place import Place
from bench.sizes import Sizes


async def measure(peer_name: str, part: str, sizes: Sizes) -> Figures:
    entry = BY_NAME[peer_name]
    peer, marks = adapt(entry), given()
    marks.clear()
    await peer.create()
    try:
        return await PARTS[part](Measurement(entry, peer, marks, sizes, Place.given()))
    finally:
        await peer.close()


def main() -> None:
    peer, part, sizes = sys.argv[1:]
    # So that every `finally` ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    logging.disable(logging.WARNING)
    try:
        answer: dict[str, object] = {"figures": asyncio.run(measure(peer, part, Sizes.read(json.loads(sizes))))}
    except Exception as error:  # a peer may fail in any way, and the others are measured all the same
        answer = {"trouble": f"{type(error).__name__}: {error}"[:500]}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
