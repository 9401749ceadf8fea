"""The simulator: the unchanged engine in worlds that are drawn from seeds and full of faults.

The worker, the keeper and the duties run unchanged on the SQLite store in memory. The clock jumps to the next event.
The driver waits before and after every store call, and meanwhile faults happen: processes are killed and stopped,
requests and replies are lost, the store is down, its clock steps. An oracle checks the log and the rows after every
operation. `make simulate SEED=17` prints the trace of one seed.
"""

from simulator.run import Report, simulate
from simulator.sometimes import SOMETIMES, Reached

__all__ = ["SOMETIMES", "Reached", "Report", "simulate"]
