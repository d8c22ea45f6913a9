// SPDX-License-Identifier: Apache-2.0
// A command, and what its reply means to the caller.

package io.github.ration.client;

import java.util.function.Function;

/**
 * {@code instead}: what the caller gets by policy, and why. {@code line}: not 0 if the request may wait in line, under this id.
 * {@code undo}: the command that ends the lease of a reply that came too late.
 */
record Request<T>(byte[] command, Reading<T> reading, Function<String, T> instead, long line, String undo) {
    interface Reading<T> {
        T read(Object reply) throws BadAnswer;
    }
}
