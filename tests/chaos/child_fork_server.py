"""Starts the children of a worker as forks of a process that the worker forked while it had no threads.

Half of the time of a run was spent by interpreters that imported the engine for jobs of killed workers. The program of
a child is the same, in its own session, on the same sockets; only the import is done once for all.
"""

import contextlib
import json
import os
import socket
import sys
import threading
from typing import Any

from chaos.forked import ForkedProcess, status_of


class ChildForkServer:
    """Ends with the worker, because its socket is closed then."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._one_at_a_time = threading.Lock()
        self._line = ours
        if os.fork() == 0:
            ours.close()
            _serve(theirs)
        theirs.close()

    def start(self, _mark: str, *fds: int) -> ForkedProcess:
        """As `mulligan.worker.children.pool` starts a child; but a fork cannot be marked."""
        return ForkedProcess(self, self.ask({"path": [place for place in sys.path if isinstance(place, str)]}, fds))

    def ask(self, order: dict[str, Any], fds: tuple[int, ...] = ()) -> Any:
        with self._one_at_a_time:
            socket.send_fds(self._line, [json.dumps(order).encode()], fds)
            return json.loads(self._line.recv(100))


def _serve(line: socket.socket) -> None:
    # The socket is closed however the worker ends, also in the middle of a message.
    with contextlib.suppress(OSError):
        while (found := socket.recv_fds(line, 65_536, 3))[0]:
            order, fds = json.loads(found[0]), found[1]
            line.send(json.dumps(_child(line, fds, **order) if fds else status_of(order["status of"])).encode())
            for fd in fds:
                os.close(fd)
    os._exit(0)


def _child(line: socket.socket, fds: list[int], path: list[str]) -> int:
    """Its number, once it has its session: from then on its group can be killed."""
    has_session, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        line.close()
        os.setsid()
        os.close(has_session)
        os.close(ready)
        _run_child(fds, path)
    os.close(ready)
    os.read(has_session, 1)
    os.close(has_session)
    return pid


def _run_child(fds: list[int], path: list[str]) -> None:
    from mulligan.worker.children.process import main

    sys.path[:] = path
    main(*fds)
    sys.exit(0)
