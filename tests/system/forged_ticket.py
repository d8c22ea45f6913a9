# SPDX-License-Identifier: Apache-2.0
"""Tickets as bytes, signed by an attacker: see src/limiter/tickets/ticket.c."""

import base64
import secrets
import struct

MASK = (1 << 64) - 1
VERSION = 2
RESERVATION, LEASE, DUE, TURN = 1, 2, 3, 4
# The secret of nodes that were given none, and what makes the seed of reservations of it:
# constants of the source (src/rationd/shared_store.c, src/limiter/limiter.c).
PUBLISHED = (0x7261746961746564, 0x6F6E206B65797331)
RESERVATION_DOMAIN = 0xA0761D6478BD642F


def siphash(key, data):
    """SipHash-1-3, as src/base/siphash.c."""
    v0, v1 = key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D
    v2, v3 = key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573

    def turn(x, bits):
        return (x << bits | x >> (64 - bits)) & MASK

    def mix(v0, v1, v2, v3):
        v0 = (v0 + v1) & MASK
        v1, v0 = turn(v1, 13) ^ v0, turn(v0, 32)
        v2 = (v2 + v3) & MASK
        v3 = turn(v3, 16) ^ v2
        v0 = (v0 + v3) & MASK
        v3 = turn(v3, 21) ^ v0
        v2 = (v2 + v1) & MASK
        v1, v2 = turn(v1, 17) ^ v2, turn(v2, 32)
        return v0, v1, v2, v3

    tail = data[len(data) & ~7:]
    words = list(struct.unpack(f"<{len(data) // 8}Q", data[:len(data) & ~7]))
    for word in [*words, int.from_bytes(tail, "little") | (len(data) & 255) << 56]:
        v0, v1, v2, v3 = mix(v0, v1, v2, v3 ^ word)
        v0 ^= word
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = mix(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def key_of(secret):
    """The key that tickets were once signed with, given the secret of the nodes."""
    seed = (secret[0] ^ RESERVATION_DOMAIN, ~secret[1] & MASK)
    return siphash(secret, b"ticket"), siphash(seed, b"ticket")


def secret_of(text):
    """redis_key_secret as rationd reads it."""
    return siphash(PUBLISHED, text), siphash((~PUBLISHED[0] & MASK, PUBLISHED[1]), text)


def number(n):
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


class Ticket:
    """Of a reservation under rules without places: what it says, without its signature."""

    def __init__(self, text):
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        self.bytes, self.mac = data[:-8], data[-8:]
        self.at = 0
        version, self.kind, self.id, self.at_ns = self.fixed("<BBQQ")
        assert (version, self.kind) == (VERSION, RESERVATION)
        self.timeout, self.reserved = self.number(), self.number()
        self.receipts = [list(self.fixed("<QQq")) + [self.number(), self.number()]
                         for _ in range(self.number() // 2)]

    def fixed(self, form):
        values = struct.unpack_from(form, self.bytes, self.at)
        self.at += struct.calcsize(form)
        return values

    def number(self):
        n, shift = 0, 0
        while True:
            byte = self.bytes[self.at]
            self.at += 1
            n, shift = n | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return n

    def body(self):
        """As src/limiter/tickets/ticket.c writes it."""
        head = struct.pack("<BBQQ", VERSION, self.kind, self.id, self.at_ns) + number(self.timeout)
        receipts = b"".join(struct.pack("<QQq", *r[:3]) + number(r[3]) + number(r[4]) for r in self.receipts)
        if self.kind == RESERVATION:
            return head + number(self.reserved) + number(2 * len(self.receipts)) + receipts + number(0)
        return head + number(len(self.receipts)) + receipts

    def with_mac(self, mac):
        return base64.urlsafe_b64encode(self.body() + mac).decode().rstrip("=")

    def signed(self, key):
        return self.with_mac(struct.pack("<Q", siphash(key, self.body())))


def is_signed(text, digits):
    """Whether nodes without a secret have signed it with this key, as it is in Redis."""
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    key = secret_of(struct.pack("<QQ", int(digits[:16], 16), int(digits[16:], 16)))
    return struct.pack("<Q", siphash(key, data[:-8])) == data[-8:]


def forge_refund(lease, key):
    """A ticket that gives back what a reservation was charged, as often as one likes: that of
    somebody who leaves a queue, for which nothing is kept until it is used."""
    ticket = Ticket(lease)
    ticket.kind, ticket.id, ticket.timeout = TURN, secrets.randbits(64), 3600 * 10**9
    return ticket.signed(key)
