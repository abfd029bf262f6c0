"""Spellings of web addresses that lead inside: numbers as browsers and libraries read them, other alphabets, tunnels, names, ports."""

from __future__ import annotations

import ipaddress
import random
import socket
from collections.abc import Sequence

INSIDE_4 = ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "0.0.0.0/8", "192.0.0.0/29",
            "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32", "169.254.169.254/32", "100.100.100.200/32", "168.63.129.16/32")  # fmt: skip
INSIDE_6 = (
    "::1/128",
    "::/128",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    "fd00:ec2::254/128",
    "2001:db8::/32",
    "100::/64",
)
TUNNELS = ("::ffff:{a}", "::{a}", "64:ff9b::{a}", "64:ff9b:1::{a}", "2002:{h}::1", "2002:{h}::", "2001:0:{h}::1", "2001:0:808:808:0:0:{x}", "::ffff:0:{a}")  # fmt: skip
"""Addresses of IPv6 in which an address of IPv4 is what is reached: {a} with dots, {h} as two groups, {x} with all bits turned."""
DIGITS = ("０１２３４５６７８９", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗", "⓪①②③④⑤⑥⑦⑧⑨", "٠١٢٣٤٥٦٧٨٩", "⁰¹²³⁴⁵⁶⁷⁸⁹")
DOTS = (".", "。", "．", "｡", "%2e", "..")
NAMES = ("localhost", "LOCALHOST", "localhost.", "ⓛocalhost", "ｌocalhost", "a.localhost", "localhost.localdomain", "loop.test", "metadata.google.internal",
         "inside.test", "intranet", "printer.local", "mixed.test", "l%6fcalhost", "xn--localhost-.test")  # fmt: skip
RESOLVED = {
    "localhost": ["127.0.0.1"], "a.localhost": ["::1"], "localhost.localdomain": ["127.0.0.1"], "loop.test": ["127.8.8.8"], "inside.test": ["10.1.2.3"],
    "metadata.google.internal": ["169.254.169.254"], "intranet": ["192.168.1.1"], "printer.local": ["169.254.3.3"],
    "mixed.test": ["93.184.216.34", "fe80::1%eth0"],
}  # fmt: skip


def inside(rng: random.Random) -> str:
    """A host in an address that leads inside, or to nothing."""
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(NAMES)
    if kind < 0.35:
        return f"[{six(rng, member(rng, rng.choice(INSIDE_6)))}]"
    four = ipaddress.IPv4Address(int(member(rng, rng.choice(INSIDE_4))))
    if kind < 0.6:
        number = int(four)
        words = {"a": str(four), "h": groups(number), "x": groups(number ^ 0xFFFFFFFF)}
        return f"[{six(rng, ipaddress.ip_address(rng.choice(TUNNELS).format(**words)))}]"
    return number_spelled(rng, four)


def member(rng: random.Random, network: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address of a network: often its first or last."""
    found = ipaddress.ip_network(network)
    last = found.num_addresses - 1
    return found[rng.choice((0, last, min(1, last), rng.randint(0, last)))]


def groups(number: int) -> str:
    """32 bits as two groups of an IPv6 address."""
    return f"{number >> 16:x}:{number & 0xFFFF:x}"


def six(rng: random.Random, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """An address of IPv6 as it can be written: short, long, in capitals, with its end in dots, with a zone."""
    assert isinstance(address, ipaddress.IPv6Address)
    text = rng.choice((address.compressed, address.exploded))
    if rng.random() < 0.3:
        head = address.exploded.rpartition(":")[0].rpartition(":")[0]
        text = f"{head}:{ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)}"
    text = text.upper() if rng.random() < 0.3 else text
    return text + rng.choice(("", "", "", "%eth0", "%251", "%25lo"))


def number_spelled(rng: random.Random, address: ipaddress.IPv4Address) -> str:
    """An address of IPv4 in one to four parts, each decimal, octal or hexadecimal, in any digits, with any dots."""
    parts = list(address.packed)
    count = rng.randint(1, 4)
    tail = int.from_bytes(bytes(parts[count - 1 :]), "big")
    spelled = [_number(rng, part) for part in (*parts[: count - 1], tail)]
    text = rng.choice(DOTS[:1] * 6 + DOTS).join(spelled)
    if rng.random() < 0.25:
        digits = rng.choice(DIGITS)
        text = "".join(digits[int(c)] if c.isascii() and c.isdigit() and rng.random() < 0.6 else c for c in text)
    return text + rng.choice(("", "", "", ".", ".."))


def _number(rng: random.Random, number: int) -> str:
    form = rng.choice(("{:d}", "{:d}", "{:d}", "0{:o}", "00{:o}", "0x{:x}", "0X{:X}", "0x00{:x}", "{:03d}"))
    return form.format(number)


def address(rng: random.Random, host: str) -> str:
    """A whole address with this host."""
    scheme = rng.choice(("https", "https", "https", "HTTPS", "http", "hTTp"))
    user = rng.choice(("", "", "", "", "a@", "notes.example@", "notes.example:443@", "%40"))
    port = rng.choice(("", "", "", ":443", ":80", ":8443", ":0443", ":"))
    slashes = rng.choice(("://",) * 8 + (":/", ":", ":\\\\", ":///"))
    path = rng.choice(("/x", "", "?q=1", "#notes.example", "/..//x", "\\@notes.example/", "/latest/meta-data/", "\t/x"))
    return f"{scheme}{slashes}{user}{host}{port}{path}"


async def resolve(host: str, port: int) -> Sequence[str]:
    """What a system makes of a host: names of the table, and whatever the C library reads as a number."""
    name = host.strip("[]").rstrip(".").lower()
    if name in RESOLVED:
        return RESOLVED[name]
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return [str(row[4][0]) for row in found]


def leads_inside(address: str) -> bool:
    """Whether a connection to an IP address can reach this machine, its network or a metadata service: by the bits, without our own code."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        bits = int(ip)
        embedded = [bits & 0xFFFFFFFF] if bits >> 32 in (0, 0xFFFF, 0xFFFF0000, 0x64FF9B << 64) else []
        embedded += [(bits >> 80) & 0xFFFFFFFF] if bits >> 112 == 0x2002 else []
        embedded += [(bits & 0xFFFFFFFF) ^ 0xFFFFFFFF, (bits >> 64) & 0xFFFFFFFF] if bits >> 96 == 0x20010000 else []
        if bits >> 80 == 0x64FF9B0001:
            return True
        if embedded and bits > 1:
            return any(leads_inside(str(ipaddress.IPv4Address(one))) for one in embedded)
    return any(
        ip in ipaddress.ip_network(known)
        for known in (*INSIDE_4, *INSIDE_6)
        if ipaddress.ip_network(known).version == ip.version
    )
