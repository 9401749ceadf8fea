"""Serves a leaderboard beside a program, on a port of loopback."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from apps.runs.leaderboard.server import Board, leaderboard


@contextmanager
def serve_leaderboard(board: Board, *, port: int = 0) -> Iterator[str]:
    """Its address. Port 0 is a free one."""
    listener = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(leaderboard(board), log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
