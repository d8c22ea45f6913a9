# SPDX-License-Identifier: Apache-2.0
"""How long to wait before a call is repeated. docs/retrying.md says what may be repeated, and when to stop."""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime
from typing import Optional


def retry_after_seconds(value: Optional[str]) -> Optional[float]:
    """Of a Retry-After header, seconds or a date; None without one, and for what is neither."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def backoff(attempt: int, retry_after: Optional[str] = None, first: float = 0.2, most: float = 10.0) -> float:
    """Seconds to wait after attempt 0, 1, ...: what the server asks for, and a random part that grows (full jitter)."""
    if attempt < 0:
        raise ValueError(f"attempt must be 0 or more, found {attempt}")
    return (retry_after_seconds(retry_after) or 0.0) + random.uniform(0, min(most, first * 2 ** min(attempt, 60)))
