// SPDX-License-Identifier: Apache-2.0
/** A filter for jakarta.servlet: see {@link io.github.ration.servlet.RationFilter}. */
package io.github.ration.servlet;
