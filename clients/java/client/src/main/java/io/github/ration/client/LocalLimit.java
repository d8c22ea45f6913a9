// SPDX-License-Identifier: Apache-2.0
// A token bucket for each key, in this process. The keys used last are kept.

package io.github.ration.client;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

final class LocalLimit {
    static final int MOST_KEYS = 10_000;
    private static final Pattern TEXT = Pattern.compile(
            "(\\d{1,15}) per (?:(\\d{1,6}) )?(second|minute|hour|day)s?(?: burst (\\d{1,15}))?");
    private static final Map<String, Integer> UNITS = Map.of("second", 1, "minute", 60, "hour", 3600, "day", 86400);
    private static final double ROUNDING = 1e-9;

    private record Bucket(double left, long at) {}

    private static final class Recent extends LinkedHashMap<String, Bucket> {
        private static final long serialVersionUID = 1;

        Recent() {
            super(16, 0.75f, true);
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Bucket> eldest) {
            return size() > MOST_KEYS;
        }
    }

    private final long amount;
    private final double period; // seconds
    private final long burst;
    private final Recent buckets = new Recent();

    LocalLimit(String text) {
        Matcher match = TEXT.matcher(text);
        if (!match.matches() || Long.parseLong(match.group(1)) == 0) {
            throw new IllegalArgumentException("policy must be \"allow\", \"refuse\" or a local limit such as \"100 per second\" or"
                    + " \"5 per 10 minutes burst 20\", found \"" + text + "\"");
        }
        amount = Long.parseLong(match.group(1));
        period = (match.group(2) == null ? 1.0 : Long.parseLong(match.group(2))) * UNITS.get(match.group(3));
        burst = match.group(4) == null ? amount : Long.parseLong(match.group(4));
        if (period == 0 || burst == 0) {
            throw new IllegalArgumentException("a local limit needs a period and a burst above 0, found \"" + text + "\"");
        }
    }

    Decision take(String key, long cost, String why) {
        double rate = amount / period;
        double left;
        boolean allowed;
        synchronized (this) {
            long now = System.nanoTime();
            Bucket bucket = buckets.get(key);
            left = bucket == null ? burst : Math.min(burst, bucket.left + (now - bucket.at) / 1e9 * rate);
            allowed = left + ROUNDING >= cost;
            left -= allowed ? cost : 0;
            buckets.put(key, new Bucket(left, now));
        }
        Map<String, Object> members = new HashMap<>();
        members.put("rule", null);
        members.put("limit", burst);
        members.put("remaining", Math.max(0, (long) Math.floor(left + ROUNDING)));
        members.put("reset_after", (burst - left) / rate);
        members.put("allowed", allowed);
        Map<String, Object> limit = new HashMap<>(members);
        limit.put("amount", amount);
        limit.put("period", period);
        members.put("limits", List.of(limit));
        members.put("decided_by", 0L);
        members.put("retry_after", allowed ? (Double) 0.0 : cost > burst ? null : (Double) ((cost - left) / rate));
        return new Decision(members, why);
    }

    synchronized int keys() {
        return buckets.size();
    }
}
