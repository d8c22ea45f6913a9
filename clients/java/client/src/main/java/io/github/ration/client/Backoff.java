// SPDX-License-Identifier: Apache-2.0
// How long to wait before a call is repeated. docs/retrying.md says what may be repeated, and when to stop.

package io.github.ration.client;

import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Stream;

/** The time to wait before a call that was refused, or has failed, is made again. */
public final class Backoff {
    private static final long FIRST_MS = 200;
    private static final long MOST_MS = 10_000;
    private static final long MOST_SECONDS = 999_999_999; // more is as good as never
    /** The three forms of a date in HTTP. All are in GMT. */
    private static final List<DateTimeFormatter> DATES =
            Stream.of("EEE, dd MMM yyyy HH:mm:ss 'GMT'", "EEEE, dd-MMM-yy HH:mm:ss 'GMT'", "EEE MMM ppd HH:mm:ss yyyy")
                    .map(pattern -> DateTimeFormatter.ofPattern(pattern, Locale.US)).toList();

    private Backoff() {}

    /** After attempt 0, 1, ...: what the server asks for, and a random part that grows (full jitter). */
    public static Duration after(int attempt, String retryAfter) {
        if (attempt < 0) {
            throw new IllegalArgumentException("attempt must be 0 or more, found " + attempt);
        }
        Duration asked = retryAfter(retryAfter);
        long most = Math.min(MOST_MS, FIRST_MS << Math.min(attempt, 32));
        return (asked == null ? Duration.ZERO : asked).plusNanos(ThreadLocalRandom.current().nextLong(most * 1_000_000 + 1));
    }

    public static Duration after(int attempt) {
        return after(attempt, null);
    }

    /** Of a Retry-After header, seconds or a date; null without one, and for what is neither. */
    public static Duration retryAfter(String header) {
        String text = header == null ? "" : header.strip();
        if (text.matches("\\d+")) {
            return Duration.ofSeconds(text.length() > 9 ? MOST_SECONDS : Long.parseLong(text));
        }
        for (DateTimeFormatter format : DATES) {
            try {
                Duration rest = Duration.between(Instant.now(), LocalDateTime.parse(text, format).toInstant(ZoneOffset.UTC));
                return rest.isNegative() ? Duration.ZERO : rest;
            } catch (DateTimeException | ArithmeticException error) {
                continue; // the next form
            }
        }
        return null;
    }
}
