# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 frames by hand, for what no client would send. Headers are literals without
indexing (RFC 7541, 6.2.2), so that there is no state."""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
CANCEL = b"\0\0\0\x08"

CALL = {":method": "POST", ":scheme": "http", ":authority": "test",
        ":path": "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        "content-type": "application/grpc", "te": "trailers"}


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


def block(headers):
    out = b""
    for name, value in headers.items():
        name, value = name.encode(), value.encode()
        assert len(name) < 127 and len(value) < 127
        out += b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
    return out


def get(stream, path):
    """A request without a body."""
    head = {":method": "GET", ":scheme": "http", ":authority": "test", ":path": path}
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, block(head))


def message(payload, compressed=0):
    return bytes([compressed]) + struct.pack(">I", len(payload)) + payload


class Peer:
    """A connection that has exchanged nothing but the preface and settings."""

    def __init__(self, sock):
        self.socket, self.buffer = sock, b""
        self.socket.sendall(PREFACE + frame(SETTINGS))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def _fill(self, n):
        while len(self.buffer) < n:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError
            self.buffer += more

    def read(self):
        """(kind, flags, stream, payload); EOFError at the end."""
        self._fill(9)
        length = int.from_bytes(self.buffer[:3], "big")
        self._fill(9 + length)
        head, payload = self.buffer[:9], self.buffer[9:9 + length]
        self.buffer = self.buffer[9 + length:]
        return head[3], head[4], int.from_bytes(head[5:9], "big"), payload

    def until(self, kind, stream=None):
        """The next frame of this kind."""
        while True:
            found = self.read()
            if found[0] == kind and stream in (None, found[2]):
                return found

    def rest(self):
        """All frames up to the end of the connection, which may be a reset."""
        frames = []
        try:
            while True:
                frames.append(self.read())
        except (EOFError, ConnectionError, socket.timeout):
            return frames
