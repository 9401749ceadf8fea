"""Whether the server is about to end. An open stream would keep it from ending."""

import signal


def is_server_exiting() -> bool:
    """uvicorn does not tell its application; but its server is found by the signal handler that it installs."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))
