// SPDX-License-Identifier: Apache-2.0

// How long to wait before a call is repeated. docs/retrying.md says what may be repeated, and when to stop.

package ration

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// RetryAfter reads that header: seconds or a date. False without one, and for what is neither.
func RetryAfter(header string) (time.Duration, bool) {
	header = strings.TrimSpace(header)
	if header != "" && strings.Trim(header, "0123456789") == "" {
		seconds, _ := strconv.ParseFloat(header, 64) // digits
		return secondsToDuration(seconds), true
	}
	for _, layout := range []string{time.RFC1123, time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, header); err == nil {
			if wait := time.Until(at); wait > 0 {
				return wait, true
			}
			return 0, true
		}
	}
	return 0, false
}

// Backoff is the time to wait after attempt 0, 1, ...: what the server asks for by its Retry-After (or ""), and a random
// part that grows (full jitter).
func Backoff(attempt int, retryAfter string) time.Duration {
	asked, _ := RetryAfter(retryAfter)
	grown := math.Min(10, 0.2*math.Pow(2, math.Max(0, float64(attempt))))
	random := time.Duration(random() * grown * float64(time.Second))
	if asked > Never-random {
		return Never
	}
	return asked + random
}
