#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls to a partner that allows 20 a second, and answers 429 or 503 with Retry-After when it has had enough.

    rationd --config ration.yaml &
    ./outgoing.py stripe http://127.0.0.1:3000/charges 10

All programs that ask the same rationd (or several with one Redis) keep the rate together, this one and those in C and
Node beside it. Each call
- waits in line at rationd until it is allowed, WAIT_SECONDS at most; who leaves the line is not charged;
- is made;
- if the partner answers 429 or 503 with Retry-After, pauses the partner at rationd: nobody calls it before that time;
- without Retry-After, backs off for a random time that grows (full jitter);
- is tried ATTEMPTS times in all.

Without rationd, or if it hangs, calls are not made: the partner would block us. Set WITHOUT_RATIOND=allow if it
would not, and calls matter more; then each program still waits as long as Retry-After says.
"""

import email.utils
import http.client
import json
import os
import random
import sys
import time
import urllib.error
import urllib.request

RATIOND = os.environ.get("RATIOND", "127.0.0.1:8080")
TOKEN = os.environ.get("RATION_TOKEN")          # to pause from another machine: a token of scope admin
WITHOUT_RATIOND = os.environ.get("WITHOUT_RATIOND", "refuse")
ANSWER_SECONDS = float(os.environ.get("ANSWER_SECONDS", "1")) # for rationd, beyond the time in line
WAIT_SECONDS, CALL_SECONDS = float(os.environ.get("WAIT_SECONDS", "30")), 10
ATTEMPTS, BACKOFF_FIRST, BACKOFF_MOST = 5, 0.2, 10.0


class NotCalled(Exception):
    """The call was not made, or the partner did not take it. `retry_after`: try again then; None: not known."""

    def __init__(self, why, retry_after=None):
        super().__init__(why)
        self.retry_after = retry_after


def ask_rationd(path, body, seconds):
    """Returns the answer, or None if there is none in time."""
    headers = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    connection = http.client.HTTPConnection(RATIOND, timeout=seconds)
    try:
        connection.request("POST", path, json.dumps(body), headers)
        return json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        print(f"outgoing: rationd is away: {error!r}", file=sys.stderr, flush=True)
        return None
    finally:
        connection.close() # if we stand in line, rationd notices, and we leave it


def wait_for_turn(partner):
    """Returns when the call may leave. Raises NotCalled."""
    answer = ask_rationd("/v1/check", {"attributes": {"partner": partner}, "wait": WAIT_SECONDS},
                         WAIT_SECONDS + ANSWER_SECONDS)
    if answer is None or "allowed" not in answer: # no answer, or rationd could make no decision
        if WITHOUT_RATIOND != "allow":
            raise NotCalled("rationd is away")
    elif not answer["allowed"]:
        raise NotCalled("too many calls wait, or the partner is paused for longer", answer["retry_after"])


def pause(partner, retry_after):
    """Stops the calls of all programs. False if Retry-After makes no sense."""
    answer = ask_rationd("/v1/pause", {"attributes": {"partner": partner}, "rule": "partners", "for": retry_after},
                         ANSWER_SECONDS)
    if answer is None: # then at least our own
        time.sleep(seconds_of(retry_after))
        return True
    if "error" in answer:
        print(f"outgoing: {answer['message']}", file=sys.stderr, flush=True)
    return "error" not in answer


def seconds_of(retry_after):
    """Of either form: seconds, or a date."""
    if retry_after.isdigit():
        return int(retry_after)
    try:
        return max(0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0


def call_once(url, body, key):
    """(status, Retry-After or None); status 0 if there is no answer."""
    request = urllib.request.Request(url, body, method="POST", headers={"Idempotency-Key": key})
    try:
        with urllib.request.urlopen(request, timeout=CALL_SECONDS) as response:
            return response.status, None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get("Retry-After")
    except OSError:
        return 0, None


def call(partner, url, body, key):
    """Returns the status. Raises NotCalled. A call without an answer is repeated, too: the partner must know
    repetitions by their Idempotency-Key."""
    for attempt in range(ATTEMPTS):
        wait_for_turn(partner)
        status, retry_after = call_once(url, body, key)
        if status not in (0, 429, 503):
            return status
        if retry_after is None or not pause(partner, retry_after):
            time.sleep(random.uniform(0, min(BACKOFF_MOST, BACKOFF_FIRST * 2 ** attempt)))
    raise NotCalled(f"the partner refused {ATTEMPTS} attempts")


def main(partner, url, count):
    for n in range(int(count)):
        try:
            print(f"call {n}: {call(partner, url, b'{}', f'{os.getpid()}-{n}')}", flush=True)
        except NotCalled as error:
            print(f"call {n}: not made: {error}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: outgoing.py PARTNER URL COUNT")
    main(*sys.argv[1:])
