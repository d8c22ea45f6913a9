// SPDX-License-Identifier: Apache-2.0
/** Spring Boot 3, with servlets: see {@link io.github.ration.spring.RationAutoConfiguration}. */
package io.github.ration.spring;
