"""Web sites that misbehave, on loopback: silent, endless, empty, out of order for a while, or leading elsewhere."""

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGE = b"<!doctype html><title>A page</title><body style='background:#dfe'><h1>A page</h1>"
TALL = b"<!doctype html><body style='margin:0'><div style='height:3000px;background:linear-gradient(#fff,#369)'>"

SLOW = "<img src='/slow-image'>"
WORKER = "new Worker(URL.createObjectURL(new Blob([`fetch('{url}', {{mode: 'no-cors'}})`])))"
RULES = (
    '{{"prefetch": [{{"source": "list", "urls": ["{url}"]}}], "prerender": [{{"source": "list", "urls": ["{url}"]}}]}}'
)
RTC = """
const peer = new RTCPeerConnection({{iceServers: [{{urls: ["stun:{host}:3478", "turn:{host}:3478?transport=tcp"],
  username: "u", credential: "c"}}]}});
peer.createDataChannel("x");
peer.createOffer().then(offer => peer.setLocalDescription(offer));
"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Sites"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.server.asked[f"{self.headers.get('host', '').partition(':')[0]}{parts.path}"] += 1
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        name = parts.path.strip("/").replace("-", "_") or "page"
        getattr(self, f"on_{name}", self.on_missing)(**given)

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": "text/html", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def on_page(self, **_: str) -> None:
        self.answer(PAGE)

    def on_tall(self) -> None:
        self.answer(TALL)

    def on_vast(self) -> None:
        self.answer(b"<!doctype html><body style='margin:0'><div style='width:90000px;height:90000px;background:#369'>")

    def on_cookie(self) -> None:
        """Says whether this visitor was here before."""
        before = "visited" in self.headers.get("cookie", "")
        self.answer(PAGE if not before else b"seen", 200 if not before else 503, **{"set-cookie": "visited=1"})

    def on_recovers(self, name: str, after: str, how: str = "silent") -> None:
        """Out of order the first times, each in its own way."""
        self.server.visits[name] += 1
        if self.server.visits[name] > int(after):
            self.answer(PAGE)
        elif how == "silent":
            self.server.released.wait()
        else:
            self.answer(*((b"", 204) if how == "nothing" else (b"out of order", 503)))

    def on_silent(self) -> None:
        self.server.released.wait()

    def on_endless(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        while not self.server.released.wait(0.02):
            self.wfile.write(b"<p>more</p>")

    def on_empty(self) -> None:
        self.close_connection = True

    def on_nothing(self) -> None:
        self.answer(b"", 204)

    def on_file(self) -> None:
        self.answer(b"abc", **{"content-type": "application/zip", "content-disposition": "attachment"})

    def on_spin(self) -> None:
        self.answer(b"<script>while (true) {}</script>")

    def on_busy(self) -> None:
        self.answer(b"slow down", 429, **{"retry-after": "7"})

    def on_missing(self, **_: str) -> None:
        self.answer(b"<h1>Not here</h1>", 404)

    def on_to(self, url: str, status: str = "302") -> None:
        self.answer(b"", int(status), location=url)

    def on_holds(self, url: str, tag: str = "img") -> None:
        """A page with a part from elsewhere."""
        parts = {
            "img": f"<img src='{url}'>",
            "script": f"<script src='{url}'></script>",
            "style": f"<link rel=stylesheet href='{url}'>",
            "frame": f"<iframe src='{url}'></iframe>",
            "object": f"<object data='{url}'></object>",
            "preload": f"<link rel=preload as=fetch crossorigin href='{url}'>",
            "form": f"<form method=post action='{url}'></form><script>document.forms[0].submit()</script>",
            "fetch": f"<script>onload = null; fetch('{url}', {{mode: 'no-cors'}}).catch(() => 0)</script>{SLOW}",
            "socket": f"<script>new WebSocket('{url.replace('http', 'ws')}')</script>{SLOW}",
            "refresh": f"<meta http-equiv=refresh content='0; url={url}'>{SLOW}",
            "navigate": f"<script>location = '{url}'</script>{SLOW}",
            "import": f"<style>@import '{url}'</style>",
            "font": f"<style>@font-face {{font-family: f; src: url('{url}')}} p {{font-family: f}}</style><p>text",
            "video": f"<video src='{url}' autoplay></video>{SLOW}",
            "events": f"<script>new EventSource('{url}')</script>{SLOW}",
            "beacon": f"<script>navigator.sendBeacon('{url}', 'hello')</script>{SLOW}",
            "popup": f"<script>open('{url}')</script>{SLOW}",
            "worker": f"<script>{WORKER.format(url=url)}</script>{SLOW}",
            "prefetch": f"<link rel=prefetch href='{url}'><link rel=preconnect href='{url}'>{SLOW}",
            "rules": f"<script type=speculationrules>{RULES.format(url=url)}</script>{SLOW}",
            "rtc": f"<script>{RTC.format(host=urlsplit(url).hostname)}</script>{SLOW}",
        }
        self.answer(f"<!doctype html>{parts[tag]}".encode())

    def on_slow_image(self) -> None:
        """Keeps the page loading until its other parts have been asked for."""
        self.server.released.wait(0.5)
        self.answer(b"", 404)

    def log_message(self, *_: object) -> None: ...


class Sites(ThreadingHTTPServer):
    """`asked` counts requests by host and path."""

    daemon_threads = True
    request_queue_size = 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.released = threading.Event()
        self.visits: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def url(self, path: str = "/page", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server_port}{path}"

    def handle_error(self, *_: Any) -> None: ...


@contextlib.contextmanager
def serving_sites() -> Iterator[Sites]:
    with Sites() as sites:
        thread = threading.Thread(target=sites.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield sites
        finally:
            sites.released.set()
            sites.shutdown()
            thread.join()
