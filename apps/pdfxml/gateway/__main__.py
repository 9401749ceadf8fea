"""Start the gateway: `python -m apps.pdfxml.gateway --port 8071`."""

import argparse

import uvicorn

from apps.pdfxml.gateway.server import create_gateway


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m apps.pdfxml.gateway", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8071)
    parser.add_argument("--seconds", type=float, default=25, help="how long one conversion may take")
    parser.add_argument("--faults", action="store_true", help="serve the control route that makes the gateway fail")
    given = parser.parse_args()
    gateway = create_gateway(seconds=given.seconds, has_faults=given.faults)
    options = {"log_level": "critical", "access_log": False, "timeout_graceful_shutdown": 5}
    uvicorn.run(gateway, host=given.host, port=given.port, **options)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
