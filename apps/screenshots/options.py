"""What an operator can set, by environment variables that begin with SCREENSHOTS_."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from apps.pages.settings import SettingRefused

Endpoint = tuple[IPv4Address | IPv6Address, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`allowed` are listeners that pages may reach although they are not public. `credits` is what a new owner gets."""

    results: Path = Path("screenshots-results")
    allowed: tuple[Endpoint, ...] = ()
    ports: tuple[int, ...] = (80, 443)
    credits: int = 100
    page_timeout: timedelta = timedelta(seconds=30)
    chromium: str | None = None
    policies: str | None = None


def read_options(environment: Mapping[str, str] = os.environ) -> Options:
    """Raises SettingRefused."""

    def given(name: str, otherwise: str) -> str:
        return environment.get(f"SCREENSHOTS_{name}", "").strip() or otherwise

    default = Options()
    return Options(
        results=Path(given("RESULTS_DIR", str(default.results))),
        allowed=parse_endpoints(given("ALLOWED", "")),
        ports=tuple(_number("PORTS", port, 1, 65_535) for port in given("PORTS", "80,443").split(",")),
        credits=_number("CREDITS", given("CREDITS", str(default.credits)), 0, 10**9),
        page_timeout=timedelta(seconds=_number("PAGE_TIMEOUT_SEC", given("PAGE_TIMEOUT_SEC", "30"), 1, 600)),
        chromium=given("CHROMIUM", "") or None,
        policies=given("POLICIES_FILE", "") or None,
    )


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """`127.0.0.1:8080,[::1]:8080`. Raises SettingRefused."""
    return tuple(_parse_endpoint(each.strip()) for each in text.split(",") if each.strip())


def find_chromium(options: Options) -> str:
    """Raises FileNotFoundError."""
    named = [options.chromium] if options.chromium else ["chromium", "chromium-browser", "google-chrome"]
    found = next(filter(None, map(shutil.which, named)), None)
    if found is None:
        raise FileNotFoundError(f"no browser is installed; looked for {', '.join(named)}")
    return found


def _parse_endpoint(text: str) -> Endpoint:
    host, _, port = text.rpartition(":")
    try:
        return ip_address(host.strip("[]")), _number("ALLOWED", port, 1, 65_535)
    except ValueError:
        raise SettingRefused("SCREENSHOTS_ALLOWED", text, "a list of address:port, as 127.0.0.1:8080") from None


def _number(name: str, text: str, least: int, most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise SettingRefused(f"SCREENSHOTS_{name}", text, f"an integer from {least:,} to {most:,}")
    return number
