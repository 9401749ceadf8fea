"""`python -m bench.bodies`: the CPU time of decoding a body of the largest size, by its shape, in milliseconds."""

import time

from mulligan.web.api.enqueue import Enqueue
from mulligan.web.reading import LARGEST_BODY, decode

REPEATS = 5
ROOM = LARGEST_BODY - 100
ITEMS = {"empty lists": b"[]", "small objects": b'{"a":1}', "numbers": b"1"}


def bodies() -> dict[str, bytes]:
    lists = {name: b'"a":[' + b",".join([item] * (ROOM // (len(item) + 1))) + b"]" for name, item in ITEMS.items()}
    names = b",".join(b'"k%d":0' % number for number in range(ROOM // 12))
    shapes = {**lists, "names": names, "one string": b'"a":"' + b"x" * ROOM + b'"'}
    return {name: b'{"kind":"x","arguments":{' + shape + b"}}" for name, shape in shapes.items()}


def main() -> None:
    for name, body in bodies().items():
        times = []
        for _ in range(REPEATS):
            before = time.thread_time()
            decode(body, Enqueue)
            times.append(time.thread_time() - before)
        print(f"{name:15} {min(times) * 1_000:6.1f} ms")


if __name__ == "__main__":
    main()
