// SPDX-License-Identifier: Apache-2.0
// In the place of a callback: each trouble is a warning in the log once, until rationd answers again. It may come with every request.

package io.github.ration.client;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.HashSet;
import java.util.Set;
import java.util.function.BiConsumer;

final class Warnings implements BiConsumer<String, String> {
    private static final Logger LOG = System.getLogger(RationClient.class.getName());
    private static final int MOST = 8; // until rationd answers again

    private final Set<String> told = new HashSet<>(); // events come one at a time

    @Override
    public void accept(String name, String detail) {
        switch (name) {
            case "connected", "breaker_closed" -> told.clear();
            case "connect_failed", "bad_answer", "error_reply", "breaker_open" -> {
                if (told.size() < MOST && told.add(name + ": " + detail)) {
                    LOG.log(Level.WARNING, name + ": " + detail + " (without rationd the policy decides)");
                }
            }
            default -> { }
        }
    }
}
