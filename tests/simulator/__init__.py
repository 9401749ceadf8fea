"""The simulator: the engine itself, unchanged, in worlds made from seeds where everything goes wrong.

The worker, the keeper and the duties run as they are, on the SQLite store in memory. Theirs are a clock
that jumps to the next thing to do, a driver whose every store call waits before and after, and a weather in
which processes are killed and stopped, requests and replies are lost, the store is away and its clock
steps. An oracle reads the log and the rows after every operation. `make simulate SEED=17`
tells the story of one seed.
"""

from simulator.run import Report, simulate
from simulator.sometimes import SOMETIMES, Reached

__all__ = ["SOMETIMES", "Reached", "Report", "simulate"]
