// SPDX-License-Identifier: Apache-2.0
// One limit that applied to a request.

package io.github.ration.client;

import java.time.Duration;

/**
 * One limit that applied to a request. The rule is null if the limit came with the request; limit and remaining are null if it
 * is unlimited.
 */
public record Limit(String rule, Long limit, Long remaining, Duration resetAfter) {}
