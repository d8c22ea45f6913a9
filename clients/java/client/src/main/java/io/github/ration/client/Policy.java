// SPDX-License-Identifier: Apache-2.0
// What decides without rationd: "allow", "refuse", or a limit such as "100 per second".

package io.github.ration.client;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

final class Policy {
    private static final double REFUSED_FOR = 1; // seconds: Retry-After of a refusal by policy

    private final boolean allows;
    private final LocalLimit local; // null: none

    Policy(String text) {
        allows = "allow".equals(text);
        local = allows || "refuse".equals(text) ? null : new LocalLimit(String.valueOf(text));
    }

    Decision decide(String key, long cost, String why) {
        if (local != null) {
            return local.take(key, cost, why);
        }
        Map<String, Object> members = new HashMap<>();
        members.put("allowed", allows);
        members.put("limits", List.of());
        members.put("by", "unavailable");
        members.put("status", 503L);
        members.put("retry_after", allows ? 0 : REFUSED_FOR);
        return new Decision(members, why);
    }
}
