"""Serve the API of an app by uvicorn until a signal, alone or with a worker in the same process."""

import asyncio
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

import uvicorn

from mulligan.app import App
from mulligan.errors import ConfigurationError
from mulligan.web.access.start import first_link, may_listen
from mulligan.web.pages.page import Pages
from mulligan.web.protocol import BoundedProtocol
from mulligan.web.server import asgi
from mulligan.worker.tuning import collect_less
from mulligan.worker.worker import Worker

# How many seconds requests that are under way may take after a signal.
GRACE = 1
BACKLOG = 2_048


Announce = Callable[[str, str | None], object]


class Server(uvicorn.Server):
    """Ends at the first signal. A worker then finishes its running jobs; a second signal releases them."""

    worker: Worker | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.should_exit and self.worker is not None:
            # The handler may run in the middle of anything.
            asyncio.get_running_loop().call_soon_threadsafe(self.worker.stop)
        self.should_exit = True


def serve(
    app: App,
    *,
    host: str,
    port: int,
    root_path: str,
    with_worker: bool,
    concurrency: int | None,
    announce: Announce,
    application: Any = None,
    mounted_at: str = "",
) -> None:
    """Serve until SIGTERM or Ctrl-C. `announce` is called once connections are accepted, with the address and the link
    for a first administrator, if one is needed. `application` is served instead of the API; it may mount that."""
    may_listen(app, host)
    with _listen(host, port) as listener:
        config = _configure(app, application, root_path=root_path)
        server = Server(config)
        address = _address(host, listener)
        announce(address, first_link(app, address + mounted_at))
        with collect_less(), asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(_run(server, app, listener, with_worker=with_worker, concurrency=concurrency))


@contextmanager
def serve_beside(app: App, *, pages: Sequence[Pages] = ()) -> Iterator[str]:
    """Serve on a free port of this machine in a thread, as long as the block lasts. Yields the address."""
    host = "127.0.0.1"
    may_listen(app, host)
    with _listen(host, 0) as listener:
        server = uvicorn.Server(_configure(app, pages=pages))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), name="server")
        thread.start()
        try:
            yield _address(host, listener)
        finally:
            server.should_exit = True
            thread.join()


def _configure(
    app: App, application: Any = None, *, root_path: str = "", pages: Sequence[Pages] = ()
) -> uvicorn.Config:
    return uvicorn.Config(
        application or asgi(app, pages=pages),
        http=BoundedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        root_path=root_path,
        # The client's address and scheme, from the headers of these proxies and no others.
        forwarded_allow_ips=list(app.settings.trusted_proxies),
        timeout_graceful_shutdown=GRACE,
    )


async def _run(
    server: Server, app: App, listener: socket.socket, *, with_worker: bool, concurrency: int | None
) -> None:
    async with _worker(app, is_wanted=with_worker, concurrency=concurrency) as server.worker:
        await server.serve(sockets=[listener])
        # The worker may still finish jobs.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            if server.worker is not None:
                loop.add_signal_handler(number, server.worker.stop)


@asynccontextmanager
async def _worker(app: App, *, is_wanted: bool, concurrency: int | None) -> AsyncIterator[Any]:
    if not is_wanted:
        yield None
        return
    async with app.worker(concurrency=concurrency) as worker:
        yield worker


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None


def _address(host: str, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
