"""Start the gateway: `python -m apps.pdfxml.gateway --port 8071`."""

import argparse
import sys
import threading

import uvicorn

from apps.pdfxml.gateway.server import create_gateway


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m apps.pdfxml.gateway", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8071)
    parser.add_argument("--fd", type=int, help="a socket that listens already, instead of host and port")
    parser.add_argument("--seconds", type=float, default=25, help="how long one conversion may take")
    parser.add_argument("--faults", action="store_true", help="serve the control route that makes the gateway fail")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input is closed")
    given = parser.parse_args()
    gateway = create_gateway(seconds=given.seconds, has_faults=given.faults)
    options = {"log_level": "critical", "access_log": False, "timeout_graceful_shutdown": 5, "fd": given.fd}
    server = uvicorn.Server(uvicorn.Config(gateway, host=given.host, port=given.port, **options))
    if given.until_eof:
        threading.Thread(target=_end_at_eof, args=(server,), daemon=True).start()
    server.run()


def _end_at_eof(server: uvicorn.Server) -> None:
    """The kernel closes the pipe with the process that holds its other end, however that process ends."""
    sys.stdin.buffer.read()
    server.should_exit = True


if __name__ == "__main__":
    main()
