// SPDX-License-Identifier: Apache-2.0
// What rationd must learn when a response has ended, once: its status, and that its places are free. A request that has become
// asynchronous ends when its container says so.

package io.github.ration.servlet;

import io.github.ration.client.Decision;
import io.github.ration.client.RationClient;
import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.util.concurrent.atomic.AtomicBoolean;

final class Ending implements AsyncListener {
    private final RationClient limiter;
    private final Decision decision;
    private final HttpServletResponse response;
    private final AtomicBoolean told = new AtomicBoolean();
    private volatile boolean failed;

    Ending(RationClient limiter, Decision decision, HttpServletResponse response) {
        this.limiter = limiter;
        this.decision = decision;
        this.response = response;
    }

    void failed() {
        failed = true;
    }

    /** The application has returned: the response has ended, or will. */
    void follow(HttpServletRequest request) {
        if (decision.lease() == null && decision.charge() == null) {
            return;
        }
        try {
            if (request.isAsyncStarted()) {
                request.getAsyncContext().addListener(this);
                return;
            }
        } catch (IllegalStateException over) {
            // it has ended meanwhile
        }
        tell();
    }

    private void tell() {
        if (told.compareAndSet(false, true)) {
            limiter.report(decision.charge(), failed ? HttpServletResponse.SC_INTERNAL_SERVER_ERROR : response.getStatus());
            limiter.release(decision.lease());
        }
    }

    @Override
    public void onComplete(AsyncEvent event) {
        tell();
    }

    @Override
    public void onError(AsyncEvent event) {
        failed();
        tell(); // onComplete follows, but not in Tomcat if the application fails as it becomes asynchronous
    }

    @Override
    public void onTimeout(AsyncEvent event) {
        // the application or its container answers, and onComplete follows
    }

    @Override
    public void onStartAsync(AsyncEvent event) {
        event.getAsyncContext().addListener(this); // the container has forgotten it
    }
}
