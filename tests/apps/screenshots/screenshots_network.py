"""Captures hostile pages in a network of its own, where every private address has a listener for TCP and UDP.

Run by test_screenshots_egress.py under `unshare --net`, with the ways to try. Prints one line of JSON: how each capture
ended, what the listeners heard, and what they hear when nothing guards them.
"""

import json
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote

from apps.screenshots.app import TAG, Screenshots
from screenshots_make import make_screenshots
from screenshots_sites import Sites, serving_sites

METADATA = "169.254.169.254"
OWN = (METADATA, "168.63.129.16", "10.0.0.5", "192.168.1.5", "fd00:ec2::254")
TCP, UDP = (80, 3478), (53, 443, 3478)
EVERYTHING = (ip_network("0.0.0.0/0"), ip_network("::/0"))


def make_network() -> None:
    _ip("link", "set", "lo", "up")
    for address in OWN:
        length = ("128", "nodad") if ":" in address else ("32",)
        _ip("address", "add", f"{address}/{length[0]}", "dev", "lo", *length[1:])
    # Calls between browsers use no loopback device.
    _ip("link", "add", "near", "type", "veth", "peer", "name", "far")
    _ip("address", "add", "192.168.7.7/24", "dev", "near")
    for device in ("near", "far"):
        _ip("link", "set", device, "up")
    _ip("route", "add", "default", "dev", "near")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def listen(heard: list[str]) -> None:
    for port in TCP:
        listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        _start(lambda listener=listener: heard.append(_accept(listener)))
    for port in UDP:
        listener = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("::", port))
        _start(lambda listener=listener, port=port: heard.append(_answer(listener, port)))


def _answer(listener: socket.socket, port: int) -> str:
    _, caller = listener.recvfrom(100)
    listener.sendto(b"heard", caller)
    return f"udp {port}"


def _accept(listener: socket.socket) -> str:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        address, port = connection.getsockname()[:2]
    return f"tcp {port} {address.removeprefix('::ffff:')}"


def _start(hear: Callable[[], object]) -> None:
    def run() -> None:
        while True:
            hear()

    threading.Thread(target=run, daemon=True).start()


def capture(screenshots: Screenshots, urls: dict[str, str]) -> dict[str, str]:
    """The code by which each failed, or its state, after one attempt."""
    jobs = {way: screenshots.screenshot.options(owner="acme", tags=[TAG]).enqueue(url) for way, url in urls.items()}
    screenshots.app.run_until_idle(timeout="2m", concurrency=4)
    found = {way: screenshots.app.job(job.id) for way, job in jobs.items()}
    return {way: str(job.last_code or job.state) for way, job in found.items()}


def urls(sites: Sites, ways: list[str]) -> dict[str, str]:
    """`to` redirects; the others are parts of a page. After a colon: another address than that of the metadata."""
    made = {}
    for way in ways:
        tag, _, address = way.partition(":")
        target = quote(f"http://{address or METADATA}/latest/meta-data/")
        path = f"/to?url={target}" if tag == "to" else f"/holds?tag={tag}&url={target}"
        made[way] = sites.url(path)
    return made


def call_all() -> None:
    """Connect to each listener, and wait for its answer."""
    for address in OWN:
        with socket.create_connection((address, TCP[0])) as connection:
            connection.recv(100)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
        caller.connect((METADATA, UDP[-1]))
        caller.send(b"hello")
        caller.recv(100)


def main(ways: list[str]) -> None:
    make_network()
    heard: list[str] = []
    listen(heard)
    with tempfile.TemporaryDirectory() as folder, serving_sites() as sites:
        screenshots = make_screenshots(f"sqlite:///{folder}/app.db", Path(folder), sites)
        screenshots.app.migrate()
        screenshots.database.create()
        ended: dict[str, Any] = {"guarded": capture(screenshots, urls(sites, ways)), "heard": list(heard)}
        call_all()
        # The same browser with a proxy that lets everything pass.
        screenshots.egress = replace(screenshots.egress, allowed=EVERYTHING)
        ended["unguarded"] = capture(screenshots, urls(sites, ["img"]))
        ended["heard_unguarded"] = heard
        screenshots.database.close()
        screenshots.app.close()
    json.dump(ended, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
