// SPDX-License-Identifier: Apache-2.0
// Why rationd has not decided. It never leaves the client, and costs no stack trace.

package io.github.ration.client;

final class Unavailable extends Exception {
    private static final long serialVersionUID = 1;
    /** Whether that is the fault of rationd or of the way to it. An interrupted caller is not. */
    final boolean failure;

    Unavailable(String why, boolean failure) {
        super(why, null, false, false);
        this.failure = failure;
    }

    Unavailable(String why) {
        this(why, true);
    }
}
