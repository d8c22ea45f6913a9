# SPDX-License-Identifier: Apache-2.0
"""Makes MaxMind DB files, by the specification of the format (version 2).

    write(path, {"192.0.2.0/24": country("IT"), "2001:db8::/32": country("FR")})

Data is given as Python values: dict, list, str, bytes, bool, float, int (uint32, or uint64 and
uint128 if it is larger), U16 and U64 for those types. Equal maps are written once, and pointed to.
"""

import ipaddress
import os
import struct
import sys

MARKER = b"\xab\xcd\xefMaxMind.com"


class U16(int):
    """An unsigned number of 16 bits."""


class U64(int):
    """An unsigned number of 64 bits, also if it would fit 32."""


def country(code, continent="EU"):
    return {"continent": {"code": continent, "geoname_id": 6255148,
                          "names": {"de": "Kontinent", "en": "Continent"}},
            "country": {"geoname_id": 3175395, "iso_code": code,
                        "names": {"de": "Land " + code, "en": "Country " + code}},
            "registered_country": {"geoname_id": 3175395, "iso_code": code}}


def city(code, region, continent="EU"):
    record = country(code, continent)
    record["city"] = {"geoname_id": 1, "names": {"en": "Town"}}
    record["location"] = {"accuracy_radius": U16(20), "latitude": 43.1, "longitude": 12.3}
    record["subdivisions"] = [{"geoname_id": 2, "iso_code": region, "names": {"en": "Region"}}]
    return record


def asn(number, org):
    return {"autonomous_system_number": number, "autonomous_system_organization": org}


def head(kind, size):
    """The control bytes of a value."""
    if size < 29:
        low, more = size, b""
    elif size < 285:
        low, more = 29, bytes([size - 29])
    elif size < 65821:
        low, more = 30, struct.pack(">H", size - 285)
    else:
        low, more = 31, struct.pack(">I", size - 65821)[1:]
    if kind > 7:
        return bytes([low, kind - 7]) + more
    return bytes([kind << 5 | low]) + more


def pointer(to):
    if to < 2048:
        return bytes([0x20 | to >> 8, to & 255])
    if to < 526336:
        return bytes([0x28 | (to - 2048) >> 16]) + struct.pack(">H", (to - 2048) & 65535)
    return b"\x38" + struct.pack(">I", to)


class Data:
    """The data section. Maps and long texts that were written before are pointed to."""

    def __init__(self):
        self.bytes = bytearray()
        self.known = {}

    def encode(self, value):
        """The bytes of a value; maps inside of it go to the section, and are pointed to."""
        if isinstance(value, dict):
            return head(7, len(value)) + b"".join(
                self.encode(k) + self.refer(v) for k, v in value.items())
        if isinstance(value, list):
            return head(11, len(value)) + b"".join(self.refer(v) for v in value)
        if isinstance(value, bool):
            return head(14, int(value))
        if isinstance(value, float):
            return head(3, 8) + struct.pack(">d", value)
        if isinstance(value, bytes):
            return head(4, len(value)) + value
        if isinstance(value, str):
            text = value.encode()
            return head(2, len(text)) + text
        size = (value.bit_length() + 7) // 8
        wide = isinstance(value, U64) or size > 4
        kind = 5 if isinstance(value, U16) else 6 if not wide else 9 if size <= 8 else 10
        return head(kind, size) + value.to_bytes(size, "big")

    def refer(self, value):
        return pointer(self.put(value)) if isinstance(value, (dict, list)) else self.encode(value)

    def put(self, value):
        """The place of a value in the section."""
        name = repr(value)
        if name not in self.known:
            encoded = self.encode(value)
            self.known[name] = len(self.bytes)
            self.bytes += encoded
        return self.known[name]


def build_tree(networks, version):
    """Nodes as lists of two: a number of a node, None, or ("data", value)."""
    nodes = [[None, None]]
    for text, value in sorted(networks.items(), key=lambda n: ipaddress.ip_network(n[0]).prefixlen):
        network = ipaddress.ip_network(text)
        bits, length = int(network.network_address), network.prefixlen
        width = network.max_prefixlen
        if version == 6 and network.version == 4:
            width, length = 128, length + 96
        at = 0
        for i in range(length - 1):
            bit = bits >> (width - 1 - i) & 1
            below = nodes[at][bit]
            if not isinstance(below, int):  # a network inside of another: both halves inherit
                nodes.append([below, below])
                nodes[at][bit] = below = len(nodes) - 1
            at = below
        nodes[at][bits >> (width - length) & 1] = ("data", value)
    return nodes


def record_bytes(left, right, size):
    if size == 24:
        return struct.pack(">I", left)[1:] + struct.pack(">I", right)[1:]
    if size == 28:
        return (struct.pack(">I", left & 0xFFFFFF)[1:] + bytes([left >> 24 << 4 | right >> 24])
                + struct.pack(">I", right & 0xFFFFFF)[1:])
    return struct.pack(">II", left, right)


def make(networks, *, title="Test-Country", version=6, record_size=24, metadata=None, data=None,
         alias=()):
    """The bytes of a file. `metadata` replaces entries of it, `data` (bytes) the data section;
    `alias` are IPv6 networks that lead to the IPv4 addresses, as 2002::/16."""
    nodes = build_tree(networks, version)
    section = Data()
    count = len(nodes)

    def number(below):
        if below is None:
            return count
        if isinstance(below, int):
            return below
        return count + 16 + section.put(below[1])

    if alias:
        at = 0
        for _ in range(96):
            at = nodes[at][0]
        for text in alias:
            network, spot = ipaddress.ip_network(text), 0
            for i in range(network.prefixlen - 1):
                bit = int(network.network_address) >> (127 - i) & 1
                if not isinstance(nodes[spot][bit], int):
                    nodes.append([None, None])
                    nodes[spot][bit] = len(nodes) - 1
                spot = nodes[spot][bit]
            nodes[spot][int(network.network_address) >> (128 - network.prefixlen) & 1] = at
        count = len(nodes)
    tree = b"".join(record_bytes(number(a), number(b), record_size) for a, b in nodes)
    about = {"binary_format_major_version": U16(2), "binary_format_minor_version": U16(0),
             "build_epoch": U64(1_700_000_000), "database_type": title,
             "description": {"en": "made by a test"}, "ip_version": U16(version),
             "languages": ["en"], "node_count": count, "record_size": U16(record_size)}
    about.update(metadata or {})
    plain = Data()
    plain.refer = plain.encode  # metadata has no pointers
    return (tree + bytes(16) + (bytes(section.bytes) if data is None else data) + MARKER
            + plain.encode(about))


def write(path, networks, **how):
    """Puts a file in place at once, as tools that update databases do."""
    replace(path, make(networks, **how))


def replace(path, content):
    beside = f"{path}.new"
    with open(beside, "wb") as file:
        file.write(content)
    os.rename(beside, path)


# The file that fixtures and contracts use; `python3 mmdb_writer.py FILE` makes it.
EXAMPLE = {
    "5.1.0.0/16": {**city("IT", "25"), **asn(64500, "Example Networks")},
    "5.2.0.0/16": {**city("FR", "IDF"), **asn(64501, "Exemple SA")},
    "8.8.0.0/16": {**city("US", "CA", "NA"), **asn(64502, "Example Cloud")},
    "8.8.9.0/24": {**city("US", "TX", "NA"), **asn(64502, "Example Cloud")},
    "2a00:1::/32": {**city("IT", "25"), **asn(64500, "Example Networks")},
    "2a00:2::/32": {**city("DE", "BE"), **asn(4200000000, "Beispiel AG")},
    "10.0.0.0/8": country("XX"),  # never told: the addresses are private
    "fc00::/7": country("XX"),
}
if __name__ == "__main__":
    write(sys.argv[1], EXAMPLE, title="Test-City-ASN", alias=["2002::/16"])
