// SPDX-License-Identifier: Apache-2.0
/** A client of rationd, the rate limiter. Begin with {@link io.github.ration.client.RationClient}. */
package io.github.ration.client;
