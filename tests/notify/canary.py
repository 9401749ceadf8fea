"""Calls every URL of the SSRF corpus in a network of its own, where each private address has a listener.

Run by test_egress.py under `unshare --net`. Prints one line of JSON: what each call answered, and which local
addresses were connected to.
"""

import contextlib
import json
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

from ssrf_corpus import ANSWERS, CASES, PUBLIC, REDIRECTS

from mulligan.egress import Egress
from mulligan.failure.classify import classify
from mulligan.failure.packs import PACKS
from mulligan.failure.verdict import Failure
from mulligan.notify.signature import new_secret
from mulligan.notify.webhook import Webhook, send_webhook
from mulligan.values.address import Address, parse_address, parse_network

PORT = 8443
OWN = [
    PUBLIC, "169.254.169.254", "168.63.129.16", "10.0.0.5", "192.168.1.5", "172.16.0.5", "100.64.0.5", "fd00:ec2::254",
    "fec0::5",
]  # fmt: skip
EVERYTHING = (parse_network("0.0.0.0/0"), parse_network("::/0"))
connected: list[str] = []


class Listener(socketserver.StreamRequestHandler):
    def setup(self) -> None:
        connected.append(self.request.getsockname()[0].removeprefix("::ffff:"))
        super().setup()

    def handle(self) -> None:
        path = self.rfile.readline().split()[1].decode()
        while self.rfile.readline().strip():
            pass
        status, _, location = path.removeprefix("/").partition("/")
        where = f"Location: {REDIRECTS[int(location)].format(port=PORT)}\r\n" if location else ""
        self.wfile.write(f"HTTP/1.1 {status or 200} Said\r\n{where}Content-Length: 0\r\n\r\n".encode())


class Server(socketserver.TCPServer):
    allow_reuse_address = True

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        super().server_bind()


class Server6(Server):
    address_family = socket.AF_INET6


@contextlib.contextmanager
def listening() -> Iterator[None]:
    with Server(("0.0.0.0", PORT), Listener) as four, Server6(("::", PORT), Listener) as six:
        threads = [threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True) for server in (four, six)]
        for thread in threads:
            thread.start()
        yield
        four.shutdown()
        six.shutdown()


class Resolver:
    """Answers by name; a second question gets the second answer. Other names go to the system's resolver."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}

    def __call__(self, host: str, port: int) -> list[Address]:
        answers = ANSWERS.get(host)
        if answers is None:
            return Egress().resolve(host, port)
        number = self.asked[host] = self.asked.get(host, 0) + 1
        return [address for text in answers[min(number, len(answers)) - 1] if (address := parse_address(text))]


def call(url: str, egress: Egress) -> dict[str, Any]:
    before = len(connected)
    answer = send_webhook(Webhook(url=url, id="evt_1", body=b"{}", secrets=[new_secret()]), egress=egress)
    code = answer.problem and classify(Failure.of(answer.problem), kind="k", rules=PACKS).code
    return {"url": url, "status": answer.status, "code": code, "error": answer.error, "new": connected[before:]}


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in OWN:
        length = "128" if ":" in address else "32"
        nodad = ["nodad"] if ":" in address else []
        subprocess.run(["ip", "address", "add", f"{address}/{length}", "dev", "lo", *nodad], check=True)
    resolver = Resolver()
    guarded = Egress(ports=(80, 443, PORT), resolve=resolver)
    unguarded = Egress(ports=(PORT,), allowed=EVERYTHING, resolve=resolver)
    with listening():
        calls = [call(url.format(port=PORT), guarded) for url in CASES]
        # They come last and in order: a connection that was made before them was seen before them.
        urls = [
            f"http://{f'[{address}]' if ':' in address else address}:{PORT}/" for address in (*OWN, "127.0.0.1", "::1")
        ]
        canaries = [call(url, unguarded) for url in urls]
    json.dump({"calls": calls, "canaries": canaries, "asked": resolver.asked}, sys.stdout)


if __name__ == "__main__":
    main()
