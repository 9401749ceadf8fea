"""The application as tests have it: its delays divided by a hundred, and names of its own."""

import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from apps.screenshots.app import Screenshots
from apps.screenshots.options import Options, parse_endpoints

POLICIES = """
kinds:
  screenshot: {backoff: {type: exponential, base: 50ms, factor: 5, jitter: none}}
  pdf_generation: {backoff: {type: exponential, base: 50ms, factor: 5, jitter: none}}
services:
  "site:*": {cooldown: 300ms}
"""


def resolve_test_names(host: str, _: int) -> list[Any]:
    """`….test` is loopback, apart from names that lead nowhere or into a private network."""
    if host.endswith("nowhere.test"):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    address = {"private.test": "10.0.0.5", "metadata.test": "169.254.169.254"}.get(host, "127.0.0.1")
    return [ip_address(address)]


def write_whole(path: Path, text: str) -> None:
    """Other processes read the file: at no moment may it be empty, which would bring the long delays back."""
    with NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    Path(file.name).replace(path)


def make_screenshots(
    url: str, folder: Path, sites: Any, *, resolve: Callable[..., Any] = resolve_test_names, **options: Any
) -> Screenshots:
    policies = folder / "policies.yaml"
    if "policies" not in options and not policies.exists():
        write_whole(policies, POLICIES)
    given: dict[str, Any] = {
        "results": folder / "results",
        "allowed": parse_endpoints(sites.endpoint),
        "page_timeout": timedelta(seconds=20),
        "policies": str(policies),
    }
    screenshots = Screenshots(url, Options(**given | options))
    screenshots.egress = replace(screenshots.egress, resolve=resolve)
    return screenshots
