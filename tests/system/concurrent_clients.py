# SPDX-License-Identifier: Apache-2.0
"""Many clients at once: requests as bytes, and threads that send them."""

import concurrent.futures
import contextlib
import json
import time


def command(*words):
    """A RESP command as bytes."""
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def post(path, body, *headers):
    """An HTTP request as bytes; a body that is no bytes is sent as JSON."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: ration", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def check(**attributes):
    return post("/v1/check", {"attributes": attributes})


def read_http(file):
    """The next answer on a connection: status, headers (lower case), body. None: its end."""
    line = file.readline()
    if not line:
        return None
    status = int(line.split()[1])
    headers = {}
    while (line := file.readline().rstrip(b"\r\n")):
        name, _, value = line.partition(b":")
        headers[name.decode().lower()] = value.strip().decode()
    body = file.read(int(headers.get("content-length", 0)))
    assert len(body) == int(headers.get("content-length", 0)), "the body is cut short"
    return status, headers, body


def http_allowed(file):
    """Whether the next answer on a connection admits."""
    answer = read_http(file)
    if answer is None:
        raise EOFError("the connection ended")
    assert answer[0] in (200, 429), answer
    return answer[0] == 200


def resp_allowed(reply):
    """Whether a reply of RATION.TAKE or RATION.CHECK, in pairs, admits."""
    assert reply[0] == b"allowed", reply
    return reply[1] == 1


def pair(reply, name):
    """One value of a reply in pairs."""
    return reply[reply.index(name.encode()) + 1]


def in_threads(count, work):
    """work(0), work(1), ... at the same time; their results in order."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def storm(daemon, connections, resp=None, http=None, threads=8):
    """Sends these bytes over each of many connections, then reads all answers: `resp` and
    `http` are (bytes, how many answers). Half of the connections each if both are given.
    Returns how many were admitted."""
    def of_thread(thread):
        admitted = 0
        with contextlib.ExitStack() as stack:
            open_ones = []
            for n in range(thread, connections, threads):
                use_http = http and (not resp or n % 2)
                data, count = http if use_http else resp
                if use_http:
                    s = stack.enter_context(daemon.socket())
                    file = stack.enter_context(s.makefile("rb"))
                    open_ones.append((s, data, count, lambda f=file: http_allowed(f)))
                else:
                    redis = stack.enter_context(daemon.resp())
                    open_ones.append((redis.socket, data, count,
                                      lambda r=redis: resp_allowed(r.read())))
            for s, data, _, _ in open_ones:
                s.sendall(data)
            for _, _, count, read in open_ones:
                admitted += sum(read() for _ in range(count))
        return admitted
    return sum(in_threads(threads, of_thread))


def rss(pid):
    """Resident bytes of a process."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
