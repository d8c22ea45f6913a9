// SPDX-License-Identifier: Apache-2.0
// The client of rationd. It needs nothing but java.base.

module io.github.ration.client {
    exports io.github.ration.client;
}
