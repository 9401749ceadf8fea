"""`make pdfxml`, as a process of its own."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from pdfxml_world import MODULES

from live import eventually


def test_the_gateway_beside_it_ends_with_it_even_if_it_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "apps.pdfxml", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": MODULES}, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        beside, opened = demo.stdout.readline(), demo.stdout.readline()
        gateway = re.findall(r"http://\S+", beside)[0]
        try:
            eventually(lambda: _answers(f"{gateway}/mappings"))
            page = httpx.get(opened.split()[-1])
            assert "Layout: every line with its place on the page" in page.text
        finally:
            demo.send_signal(signal.SIGKILL)
        eventually(lambda: not _answers(f"{gateway}/mappings"))


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False
