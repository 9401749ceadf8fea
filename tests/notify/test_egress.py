"""A10: no URL that a user may choose reaches the operator's own network."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from own_network import run_in_own_network
from ssrf_corpus import ANSWERS, CASES, PUBLIC, REBOUND, REDIRECTED, REFUSED

from mulligan.egress import Deadline, Egress, Target, check_url, find_addresses
from mulligan.errors import TargetRefused
from mulligan.values.address import Address, is_public, is_reachable, parse_address, parse_network
from mulligan.values.clock import SystemClock


def address(text: str) -> Address:
    found = parse_address(text)
    assert found is not None
    return found


@pytest.mark.parametrize("text", ["8.8.8.8", PUBLIC, "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_public(text: str) -> None:
    assert is_public(address(text))


@pytest.mark.parametrize(
    "text",
    ["64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "224.0.0.1", "ff02::1", "192.0.0.8", "3fff::1", "5f00::1"],
)
def test_addresses_that_python_calls_global_are_not_public(text: str) -> None:
    assert not is_public(address(text))


def test_private_addresses_are_reachable_in_an_allowed_network_only() -> None:
    allowed = [parse_network("10.1.0.0/16"), parse_network("fd00::/8")]
    assert is_reachable(address("10.1.2.3"), allowed)
    assert is_reachable(address("::ffff:10.1.2.3"), allowed)
    assert is_reachable(address("fd12::1"), allowed)
    assert not is_reachable(address("10.2.0.1"), allowed)
    assert not is_reachable(address("127.0.0.1"), allowed)
    # A packet to it reaches the relay and then the IPv4 address inside: both must be allowed.
    assert not is_reachable(address("2002:a02:1::"), [parse_network("2002::/16")])
    assert is_reachable(address("2002:808:808::1"), [parse_network("2002::/16")])


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://example.org/", "must begin with https:// or http://"),
        ("https://me:hunter2@example.org/", "must not contain a user name or a password"),
        ("https://example.org:8443/", "https://example.org:8443: port 8443 is not allowed; allowed: 443"),
        ("http://example.org/", "http://example.org: port 80 is not allowed; allowed: 443"),
        ("https://bücher.example/", "ASCII characters"),
        ("https://0x7f.1/", "the host must be a name in ASCII (xn--… if it has other letters) or an IP address"),
        ("https://example.org/#here", "must not contain a fragment"),
    ],
)
def test_a_refused_url_says_what_is_possible(url: str, said: str) -> None:
    with pytest.raises(TargetRefused) as refused:
        check_url(url, Egress())
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_target_keeps_its_name_path_and_query() -> None:
    target = check_url("https://Hooks.Example.org./a/b?c=d", Egress())
    assert target == Target("https", "hooks.example.org", 443, "/a/b?c=d")
    assert (target.netloc, target.shown) == ("hooks.example.org", "https://hooks.example.org")
    assert check_url("https://[2606:4700::1111]", Egress()).netloc == "[2606:4700::1111]"
    assert check_url("http://example.org:8080", Egress(ports=(8080,))).netloc == "example.org:8080"


def test_a_slow_resolver_is_given_up() -> None:
    over = threading.Event()

    def resolve(host: str, port: int) -> list[Address]:
        over.wait(60)
        return []

    target, egress = Target("https", "slow.test", 443, "/"), Egress(resolve=resolve)
    with pytest.raises(TimeoutError, match=r"resolving slow\.test"):
        find_addresses(target, egress, Deadline(SystemClock(), 0.05))
    over.set()


@pytest.fixture(scope="module")
def played() -> dict[str, Any]:
    return run_in_own_network(Path(__file__).with_name("canary.py"))


def test_the_corpus_is_large() -> None:
    assert len(set(REFUSED)) == len(REFUSED) >= 80


def test_no_url_of_the_corpus_reaches_a_private_address(played: dict[str, Any]) -> None:
    connected = {found for call in played["calls"] for found in call["new"]}
    assert connected == {PUBLIC}
    # Each canary answers when nothing guards it.
    assert [call["error"] for call in played["canaries"]] == [None] * 11
    assert {found for call in played["canaries"] for found in call["new"]} > {"127.0.0.1", "::1", "169.254.169.254"}


def test_refused_urls_have_their_own_final_code(played: dict[str, Any]) -> None:
    calls = dict(zip(CASES, played["calls"], strict=True))
    others = {url: calls[url]["code"] for url in REFUSED if calls[url]["code"] != "TARGET_REFUSED"}
    assert set(others) == {"http://nowhere.test:{port}/", "http://ip6-localhost:{port}/"} & set(others)


def test_a_redirect_is_a_failure_and_is_not_followed(played: dict[str, Any]) -> None:
    calls = dict(zip(CASES, played["calls"], strict=True))
    for url in REDIRECTED:
        assert calls[url]["code"] == "HTTP_3XX"
        assert calls[url]["new"] == [PUBLIC]


def test_a_name_is_resolved_once(played: dict[str, Any]) -> None:
    calls = dict(zip(CASES, played["calls"], strict=True))
    for url in REBOUND:
        assert (calls[url]["status"], calls[url]["new"]) == (200, [PUBLIC])
    assert played["asked"]["rebinding.test"] == played["asked"]["zero-ttl.test"] == 1
    assert set(ANSWERS) == set(played["asked"])


def test_an_allowed_endpoint_is_one_address_and_one_port() -> None:
    endpoint = (address("127.0.0.1"), 8080)
    egress = Egress(ports=(80, 443), endpoints=[endpoint])
    assert egress.check("http://127.0.0.1:8080/").port == 8080
    reachable = [
        (text, port)
        for text in ("127.0.0.1", "127.0.0.2", "10.0.0.5", "8.8.8.8")
        for port in (80, 443, 8080, 9090)
        if egress.may_reach(address(text), port)
    ]
    assert reachable == [("127.0.0.1", 8080), ("8.8.8.8", 80), ("8.8.8.8", 443)]


def test_an_opened_connection_goes_to_the_address_that_was_checked() -> None:
    answers = iter([[address("127.0.0.1")], [address("10.0.0.5")]])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        egress = Egress(endpoints=[(address("127.0.0.1"), port)], resolve=lambda *_: next(answers))
        with egress.open("site.test", port) as connection:
            assert connection.getpeername() == ("127.0.0.1", port)
        with pytest.raises(TargetRefused, match="not public"):
            egress.open("site.test", port)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "::1", "localhost", "169.254.169.254", "0x7f.1", "a b", ""])
def test_a_private_host_is_not_opened(host: str) -> None:
    for ask in (Egress(ports=(80,)).open, Egress(ports=(80,)).look_up):
        with pytest.raises(TargetRefused):
            ask(host, 80)
