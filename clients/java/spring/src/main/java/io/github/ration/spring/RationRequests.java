// SPDX-License-Identifier: Apache-2.0
// What only the application knows about its requests: a bean of it.

package io.github.ration.spring;

import jakarta.servlet.http.HttpServletRequest;
import java.util.Map;

/** Make a bean of this type to tell what rules may ask for, and which requests are not limited. */
public interface RationRequests {
    /** What is asked besides ip, method, host and path; a null takes an attribute away. */
    default Map<String, ?> attributes(HttpServletRequest request) {
        return Map.of();
    }

    /** Whether the request is not limited. */
    default boolean skip(HttpServletRequest request) {
        return false;
    }
}
