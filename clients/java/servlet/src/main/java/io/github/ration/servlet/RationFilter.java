// SPDX-License-Identifier: Apache-2.0
// A filter for any jakarta.servlet container: asks rationd, refuses or lets go ahead, and tells rationd how the request has ended.

package io.github.ration.servlet;

import io.github.ration.client.Decision;
import io.github.ration.client.RationClient;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpFilter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * Asks about each request once. The decision is the request's attribute {@link #DECISION}. Register it with async-supported, for
 * the dispatcher type REQUEST.
 */
public class RationFilter extends HttpFilter {
    /** The name of the request's attribute. */
    public static final String DECISION = "ration.decision";

    private static final long serialVersionUID = 1;

    private final transient RationClient limiter;
    private transient Function<HttpServletRequest, Map<String, ?>> attributes = request -> Map.of();
    private transient Predicate<HttpServletRequest> skip = request -> false;
    private Duration wait;

    public RationFilter(RationClient limiter) {
        this.limiter = limiter;
    }

    /** What is asked besides ip, method, host and path; a null takes an attribute away. */
    public RationFilter attributes(Function<HttpServletRequest, Map<String, ?>> more) {
        attributes = more;
        return this;
    }

    /** Requests that are not limited, and get no headers. */
    public RationFilter skip(Predicate<HttpServletRequest> unlimited) {
        skip = unlimited;
        return this;
    }

    /** So long a request may stand in line; null: it does not. */
    public RationFilter waitInLine(Duration most) {
        wait = most;
        return this;
    }

    @Override
    protected void doFilter(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        if (request.getAttribute(DECISION) != null || skip.test(request)) {
            chain.doFilter(request, response); // dispatched again, or not limited
            return;
        }
        Decision decision = limiter.check(attributesOf(request), 1, wait, true);
        request.setAttribute(DECISION, decision);
        decision.headers().forEach(response::setHeader);
        if (!decision.allowed()) {
            refuse(decision, request, response);
            return;
        }
        Ending ending = new Ending(limiter, decision, response);
        try {
            if (!decision.delay().isZero()) {
                sleep(decision.delay());
            }
            chain.doFilter(request, response);
        } catch (Throwable error) {
            ending.failed();
            throw error;
        } finally {
            ending.follow(request);
        }
    }

    private Map<String, Object> attributesOf(HttpServletRequest request) {
        Map<String, Object> asked = new HashMap<>();
        String query = request.getQueryString();
        String ip = request.getRemoteAddr();
        asked.put("ip", ip == null || ip.isEmpty() ? null : ip);
        asked.put("method", request.getMethod());
        asked.put("host", request.getHeader("Host"));
        asked.put("path", query == null ? request.getRequestURI() : request.getRequestURI() + "?" + query);
        asked.putAll(attributes.apply(request));
        return asked;
    }

    private static void refuse(Decision decision, HttpServletRequest request, HttpServletResponse response) throws IOException {
        Decision.Body body = decision.body(request.getHeader("Accept"));
        response.setStatus(decision.status());
        response.setContentType(body.contentType());
        response.setContentLength(body.content().length);
        if (!request.getMethod().equals("HEAD")) {
            response.getOutputStream().write(body.content());
        }
    }

    private static void sleep(Duration delay) {
        try {
            Thread.sleep(delay.toMillis(), delay.toNanosPart() % 1_000_000);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt(); // the application learns it where it waits next
        }
    }
}
