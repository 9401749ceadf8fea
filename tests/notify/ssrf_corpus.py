"""URLs by which a user may try to reach the operator's own network. `{port}` is the port of the listeners."""

# An address of the internet, which the test gives to its own loopback device.
PUBLIC = "93.184.215.14"

REDIRECTS = [
    "http://127.0.0.1:{port}/",
    "http://169.254.169.254:{port}/latest/meta-data/",
    "http://[::1]:{port}/",
    "//10.0.0.5:{port}/",
]

# What the resolver answers, first and then.
ANSWERS: dict[str, list[list[str]]] = {
    "private.test": [["127.0.0.1"]],
    "metadata.test": [["169.254.169.254"]],
    "private6.test": [["::1"]],
    "mapped.test": [["::ffff:127.0.0.1"]],
    "nat64.test": [["64:ff9b::7f00:1"]],
    "sixtofour.test": [["2002:7f00:1::"]],
    "mixed.test": [[PUBLIC, "10.0.0.5"]],
    "mixed-reversed.test": [["10.0.0.5", PUBLIC]],
    "mixed6.test": [[PUBLIC, "::1"]],
    "mixed-families.test": [["2606:2800:21f:cb07:6820:80da:af6b:8b2c", "127.0.0.1"]],
    "rebinding.test": [[PUBLIC], ["127.0.0.1"]],
    "zero-ttl.test": [[PUBLIC], ["169.254.169.254"], [PUBLIC]],
    "public.test": [[PUBLIC]],
    "nowhere.test": [[]],
}

_V4 = [
    "127.0.0.1", "127.0.0.2", "127.255.255.254", "0.0.0.0", "10.0.0.5", "172.16.0.5", "192.168.1.5", "100.64.0.5",
    "169.254.169.254", "168.63.129.16", "192.0.0.8", "192.0.0.170", "192.0.2.1", "192.88.99.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
]  # fmt: skip
_V6 = [
    "::", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::169.254.169.254", "64:ff9b:1::1", "64:ff9b:1::127.0.0.1", "2002:7f00:1::",
    "2002:a9fe:a9fe::1", "2001:0:4136:e378:8000:63bf:80ff:fffe", "2001:db8::1", "3fff::1", "5f00::1", "100::1",
    "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::5", "ff02::1", "0:0:0:0:0:0:0:1",
]  # fmt: skip
_FORMS = [
    # Numbers that a resolver reads as an IPv4 address.
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.1:{port}/",
    "http://0x7f.0x0.0x0.0x1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://017700000001:{port}/",
    "http://0:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://127.0.0.01:{port}/",
    "http://127.0.0.1%2e:{port}/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "http://127。0。0。1:{port}/",
    "http://127%2e0%2e0%2e1:{port}/",
    # Names of this machine.
    "http://localhost:{port}/",
    "http://LOCALHOST:{port}/",
    "http://localhost.:{port}/",
    "http://ip6-localhost:{port}/",
    "http://ⓛocalhost:{port}/",
    # Zones.
    "http://[fe80::1%25lo]:{port}/",
    "http://[fe80::1%lo]:{port}/",
    "http://[::1%25lo]:{port}/",
    # Parsers that disagree.
    "http://user@127.0.0.1:{port}/",
    "http://public.test@127.0.0.1:{port}/",
    "http://public.test:{port}@127.0.0.1:{port}/",
    "http://public.test%00@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}#@public.test/",
    "http://127.0.0.1:{port}\\@public.test/",
    "http://public.test\\@127.0.0.1:{port}/",
    "http://public.test\t@127.0.0.1:{port}/",
    "http://127.0.0.1\n:{port}/",
    " http://127.0.0.1:{port}/",
    "http:127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}/",
    "http:\\\\127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "http://[127.0.0.1]:{port}/",
    "http://[::1:{port}/",
    "http://:{port}/",
    "http://",
    "",
    # Other schemes and ports.
    "ftp://127.0.0.1:{port}/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_POST",
    "dict://127.0.0.1:{port}/",
    "unix:///var/run/docker.sock",
    "javascript:alert(1)",
    "http://public.test:22/",
    "http://public.test:6379/",
    "http://public.test:0/",
    "http://public.test:99999/",
    "http://127.0.0.1:22/",
]
_NAMES = [
    f"http://{name}:{{port}}/" for name in ANSWERS if name not in ("public.test", "rebinding.test", "zero-ttl.test")
]

REFUSED = [
    *(f"http://{address}:{{port}}/" for address in _V4),
    *(f"http://[{address}]:{{port}}/" for address in _V6),
    *_FORMS,
    *_NAMES,
]
# These reach the public address, and nothing else.
REDIRECTED = [f"http://public.test:{{port}}/{status}/{n}" for status in (301, 302, 303, 307, 308) for n in range(4)]
REBOUND = ["http://rebinding.test:{port}/", "http://zero-ttl.test:{port}/"]
CASES = [*REFUSED, *REDIRECTED, *REBOUND]
