"""The application as tests have it: its delays divided by a hundred, and names of its own."""

import socket
from collections import Counter
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
  screenshot: {{backoff: {{type: exponential, base: {delay}, factor: 5, jitter: none}}}}
  pdf_generation: {{backoff: {{type: exponential, base: {delay}, factor: 5, jitter: none}}}}
services:
  "site:*": {{cooldown: 300ms}}
"""


class Resolver:
    """`….test` is loopback, apart from names that lead nowhere, or into a private network at once or a moment later."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def __call__(self, host: str, _: int) -> list[Any]:
        self._asked[host] += 1
        if host.endswith("nowhere.test") or (host == "turning.test" and self._asked[host] <= 10):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = {
            "private.test": ["10.0.0.5"],
            "turning.test": ["10.0.0.5"],
            "metadata.test": ["169.254.169.254"],
            "mixed.test": ["127.0.0.1", "10.0.0.5"],
            "six.test": ["::1"],
            # Looked up before the browser is asked, then again for each connection.
            "rebinding.test": ["127.0.0.1"] if self._asked[host] == 1 else ["10.0.0.5"],
            "late.test": ["127.0.0.1"] if self._asked[host] <= 2 else ["169.254.169.254"],
        }
        return [ip_address(address) for address in answers.get(host, ["127.0.0.1"])]


def write_whole(path: Path, text: str) -> None:
    """Other processes read the file: at no moment may it be empty, which would bring the long delays back."""
    with NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    Path(file.name).replace(path)


def make_screenshots(url: str, folder: Path, sites: Any, *, delay: str = "50ms", **options: Any) -> Screenshots:
    """`delay` is how long the first retry waits."""
    policies = folder / "policies.yaml"
    if "policies" not in options and not policies.exists():
        write_whole(policies, POLICIES.format(delay=delay))
    given: dict[str, Any] = {
        "results": folder / "results",
        "allowed": parse_endpoints(sites.endpoint),
        "page_timeout": timedelta(seconds=20),
        "policies": str(policies),
    }
    screenshots = Screenshots(url, Options(**given | options))
    screenshots.egress = replace(screenshots.egress, resolve=Resolver())
    return screenshots
