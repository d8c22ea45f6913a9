// SPDX-License-Identifier: Apache-2.0
// Settings that are no properties: a callback for events, a context for TLS.

package io.github.ration.spring;

import io.github.ration.client.RationClient;

/** Beans of this type see the settings of the client before it is made. */
@FunctionalInterface
public interface RationClientCustomizer {
    void customize(RationClient.Builder settings);
}
