#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A polite client of an API with limits: waits as long as it is asked to, backs off with full jitter, and gives up in time.

    ./retry.py URL [COUNT]

docs/retrying.md explains each line. Only calls that may be repeated are repeated: this one gets.
"""

import email.utils
import http.client
import random
import sys
import time
import urllib.error
import urllib.request

ATTEMPTS, DEADLINE_SECONDS, CALL_SECONDS = 6, 30.0, 10.0
FIRST_SECONDS, MOST_SECONDS = 0.2, 10.0


class GaveUp(Exception):
    """`status` is the last one, 0 if there was no answer."""

    def __init__(self, status):
        super().__init__(f"gave up, last status {status or 'none'}")
        self.status = status


def seconds_to_wait(retry_after, attempt):
    """What the server asks for, and a random part on top, so that clients do not come back together."""
    jitter = random.uniform(0, min(MOST_SECONDS, FIRST_SECONDS * 2 ** attempt))
    if retry_after is None:
        return jitter
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after) + jitter
    try:
        asked = email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return jitter
    return max(0.0, asked) + jitter


def get(url):
    """The body. Raises GaveUp, or urllib's HTTPError for what time does not cure."""
    ends = time.monotonic() + DEADLINE_SECONDS
    status = 0
    for attempt in range(ATTEMPTS):
        retry_after = None
        try:
            with urllib.request.urlopen(url, timeout=max(0.1, min(CALL_SECONDS, ends - time.monotonic()))) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            status, retry_after = error.code, error.headers.get("Retry-After")
            error.close()
            if status == 429 and retry_after is None: # it can never be admitted
                raise
            if status not in (429, 502, 503, 504):
                raise
        except (OSError, http.client.HTTPException): # also an answer that ends too early
            status = 0
        wait = seconds_to_wait(retry_after, attempt)
        if time.monotonic() + wait > ends:
            break
        time.sleep(wait)
    raise GaveUp(status)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: retry.py URL [COUNT]")
    for _ in range(int(sys.argv[2]) if len(sys.argv) == 3 else 1):
        try:
            get(sys.argv[1])
            print("ok", flush=True)
        except GaveUp as error:
            print(error, flush=True)
