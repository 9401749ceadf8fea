"""IP addresses: which of them are public.

An IPv6 address may carry an IPv4 address that a gateway unwraps, so `64:ff9b::7f00:1` can reach 127.0.0.1. Such an
address is public only if the address inside it is.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# What Python's `is_global` calls public on some of its versions, or what no server on the internet has.
_DENIED = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by a carrier's customers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local: the metadata of clouds
        "168.63.129.16/32",  # Azure: configuration and keys of a virtual machine, for that machine alone
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112: answers for private reverse zones
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "::/96",  # unspecified, loopback, and IPv4-compatible
        "100::/64",  # discarded
        "100:0:0:1::/64",  # dummy prefix
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which reaches its relay and then an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fc00::/7",  # private
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local
        "ff00::/8",  # multicast
    )
)
_UNICAST = IPv6Network("2000::/3")
# RFC 6052 and 8215: the IPv4 address is in the last 32 bits.
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
# An IPv4 address that IPv6 wrote as translated, ::ffff:0:a.b.c.d.
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")


def is_public(address: Address) -> bool:
    """Whether it is a unicast address of the internet, also after unwrapping every IPv4 address inside it."""
    return all(_is_public(each) for each in unwrap(address))


def is_reachable(address: Address, allowed: Iterable[Network]) -> bool:
    """Whether it is public, or it and every address inside it are in one of the allowed networks."""
    networks = tuple(allowed)
    return all(_is_public(each) or _is_in(each, networks) for each in unwrap(address))


def unwrap(address: Address) -> list[Address]:
    """The addresses that a packet to this address may reach: those inside it, or the address itself.

    A mapped or NAT64 address is no place of its own. 6to4 and Teredo addresses are: packets pass a relay.
    """
    if isinstance(address, IPv4Address):
        return [address]
    inside = list(_inside(address))
    return [*inside, *([] if inside and _is_only_a_wrapper(address) else [_without_zone(address)])]


def parse_address(text: str) -> Address | None:
    """An IPv4 address of four decimal numbers, or an IPv6 address. None for every other form."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def parse_network(text: str) -> Network:
    """`10.0.0.0/8`, `fd00::/8`, or one address. Raises ValueError."""
    return ip_network(text.strip())


def _inside(address: IPv6Address) -> Iterator[IPv4Address]:
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if any(address in network for network in (_NAT64, _LOCAL_NAT64, _TRANSLATED)):
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo


def _is_only_a_wrapper(address: IPv6Address) -> bool:
    return address.ipv4_mapped is not None or address in _NAT64


def _without_zone(address: IPv6Address) -> IPv6Address:
    return IPv6Address(int(address))


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not address.is_multicast and not _is_in(address, _DENIED)


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)
