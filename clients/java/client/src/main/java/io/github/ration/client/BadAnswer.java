// SPDX-License-Identifier: Apache-2.0
// Bytes that rationd would not send. The connection is closed, and the policy decides.

package io.github.ration.client;

import java.io.IOException;

final class BadAnswer extends IOException {
    private static final long serialVersionUID = 1;

    BadAnswer(String message) {
        super(message);
    }

    static BadAnswer notResp3(String bytes) {
        return new BadAnswer("not RESP3: " + found(bytes.lines().findFirst().orElse("")) + "; give the address of rationd's --resp");
    }

    /** What was found, short enough for a log. */
    static String found(Object reply) {
        String text = String.valueOf(reply);
        return text.length() > 80 ? text.substring(0, 80) : text;
    }
}
