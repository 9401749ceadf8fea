"""Security: no page reaches the operator's own network, whichever way it takes. Canaries listen where none may come."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from app_stores import IS_SOAK
from own_network import run_in_own_network
from screenshots_world import World

from mulligan import State

RARE = ("script", "style", "object", "preload", "form", "frame", "refresh") if IS_SOAK else ()
TAGS = ("img", "fetch", "socket", "navigate", *RARE)
# In a network of its own, with listeners at the addresses that a page must not reach.
WAYS = ("img:[::ffff:169.254.169.254]", "to:2852039166", "refresh", "popup", "worker", "rtc")
PARTS = "img to frame fetch socket navigate script style object preload form import font video events beacon prefetch"
ADDRESSES = "to:0xa9fea9fe to:10.0.0.5 img:168.63.129.16 img:[fd00:ec2::254] img:[64:ff9b::a9fe:a9fe] rtc:10.0.0.5"
RARE_WAYS = (*PARTS.split(), *ADDRESSES.split())


class Canary:
    """Listens on loopback and counts who comes."""

    def __init__(self) -> None:
        self.visits: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                said = connection.recv(100)
                if said == b"end":
                    return
                self.visits.append(said)

    def close(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"end")
        self._thread.join()
        self._listener.close()


@pytest.fixture(scope="module")
def canary() -> Iterator[Canary]:
    found = Canary()
    yield found
    found.close()


def refused(world: World, url: str) -> str | None:
    """The code by which the job failed, at its first attempt."""
    job_id = world.submit(url)
    world.wait(job_id)
    job = world.app.job(job_id)
    assert (job.state, job.attempt) == (State.FAILED, 1), (job.state, job.last_code, job.last_detail)
    return job.error_code


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "data:text/html,hello", "view-source:http://example.org/", "about:blank"),
        *("javascript:alert(1)", "chrome://version", "ftp://example.org/", "blob:http://example.org/1", "ws://a.test/"),
        *("http://127.0.0.1/", "http://127.1/", "http://0x7f.1/", "http://2130706433/", "http://[::1]/"),
        *("http://[::ffff:127.0.0.1]/", "http://10.0.0.5/", "http://192.168.1.1/", "http://169.254.169.254/latest/"),
        *("http://0.0.0.0/", "http://[fd00:ec2::254]/", "http://[fe80::1]/", "http://example.org:22/"),
        *("http://user:password@example.org/", "http://example.org\\@127.0.0.1/", "http://①②⑦.⓪.⓪.①/", "//127.0.0.1/"),
    ],
)
def test_s2_an_address_that_is_not_public_is_refused_when_it_is_submitted(warm: World, url: str) -> None:
    with warm.as_owner("mallory") as user:
        answer = user.acme.post("/screenshots", json={"url": url})
        assert (answer.status_code, answer.json()["error"]) == (422, "TARGET_REFUSED")
        assert "password" not in answer.json()["message"].replace("a password", "")
        assert user.balance() == 1_000


@pytest.mark.parametrize("host", ["private.test", "metadata.test", "mixed.test", "six.test", "rebinding.test"])
def test_s2_a_name_that_leads_to_a_private_address_is_refused(warm: World, host: str) -> None:
    assert refused(warm, warm.sites.url("/page", host)) == "TARGET_REFUSED"
    assert not warm.sites.asked[f"{host}/page"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308] if IS_SOAK else [302, 307])
def test_s2_a_redirect_to_a_private_address_is_refused(warm: World, canary: Canary, status: int) -> None:
    target = quote(f"http://127.0.0.1:{canary.port}/")
    assert refused(warm, warm.sites.url(f"/to?status={status}&url={target}", f"r{status}.test")) == "TARGET_REFUSED"
    assert canary.visits == []


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/latest/meta-data/", "http://private.test/", "http://[::1]/"]
)
def test_s2_a_redirect_elsewhere_into_the_network_is_refused(warm: World, target: str) -> None:
    assert refused(warm, warm.sites.url(f"/to?url={quote(target)}")) == "TARGET_REFUSED"


@pytest.mark.parametrize("target", ["file:///etc/passwd", "data:text/html,hello", "view-source:http://a.test/"])
def test_s2_a_redirect_to_another_scheme_is_refused(warm: World, target: str) -> None:
    assert refused(warm, warm.sites.url(f"/to?url={quote(target)}")) == "TARGET_REFUSED"


@pytest.mark.parametrize("tag", TAGS)
def test_s2_a_part_of_a_page_from_a_private_address_is_refused(warm: World, canary: Canary, tag: str) -> None:
    target = quote(f"http://127.0.0.1:{canary.port}/")
    assert refused(warm, warm.sites.url(f"/holds?tag={tag}&url={target}", f"{tag}.test")) == "TARGET_REFUSED"
    assert canary.visits == []


def test_s2_a_name_that_changes_between_two_parts_of_a_page_is_refused(warm: World) -> None:
    """It was checked for the page itself, and is checked again for the part."""
    part = quote(warm.sites.url("/page?part", "late.test"))
    assert refused(warm, warm.sites.url(f"/holds?url={part}", "late.test")) == "TARGET_REFUSED"
    assert not warm.sites.asked["late.test/page"]


def test_s2_no_page_reaches_the_metadata_of_a_cloud() -> None:
    """Packets of every kind would be heard: also those of calls between browsers, which no proxy sees."""
    ways = WAYS + (RARE_WAYS if IS_SOAK else ())
    seen = run_in_own_network(Path(__file__).with_name("screenshots_network.py"), *ways)
    assert seen["heard"] == []
    assert seen["guarded"] == dict.fromkeys(ways, "TARGET_REFUSED")
    # When nothing guards them, the listeners hear, and the page reaches them.
    assert {"tcp 80 169.254.169.254", "tcp 80 168.63.129.16", "udp 3478"} <= set(seen["heard_unguarded"])
    assert seen["unguarded"] == {"img": "succeeded"}
    assert seen["heard_unguarded"].count("tcp 80 169.254.169.254") > 1


def test_s2_a_page_cannot_show_a_file_of_the_server(warm: World) -> None:
    """The browser itself does not let pages of the web at files: the page is captured without it."""
    job_id = warm.submit(warm.sites.url(f"/holds?tag=frame&url={quote('file:///etc/passwd')}", "files.test"))
    assert warm.wait(job_id)["status"] == "COMPLETED"


def test_the_canary_sings_when_nothing_guards_it(canary: Canary) -> None:
    with socket.create_connection(("127.0.0.1", canary.port)) as connection:
        connection.sendall(b"hello")
        assert connection.recv(1) == b""
    assert canary.visits.pop() == b"hello"
