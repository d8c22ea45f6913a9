// SPDX-License-Identifier: Apache-2.0
// What the table of scenarios cannot say of the filter: streams, asynchronous answers, HEAD, failures that are answered, properties.

package io.github.ration.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.ration.client.Decision;
import io.github.ration.client.RationClient;
import io.github.ration.servlet.RationFilter;
import java.io.IOException;
import java.net.Socket;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.ConfigurableApplicationContext;

class MiddlewareTest {
    private static final String RULES = """
            limits:
              - {name: places, key: none, limit: 1 concurrent, when: {path: [/stream, /async, /async-throw]}}
              - {name: api, key: none, limit: 1 per hour, when: {path: /api}}
              - {name: errors, key: none, limit: 2 per hour, charge_on: status 500, when: {path: [/raise, /send-error, /async-error, /async-dispatch]}}
              - {name: once, key: none, limit: 1 per hour, charge_on: status 500, when: {path: /async-throw}}
              - {name: twice, key: none, limit: 2 per hour, when: {path: [/raise, /send-error, /async-error, /async-dispatch]}}
            """;
    private Rationd rationd;
    private RationClient client;

    @BeforeEach
    void start() throws IOException {
        rationd = new Rationd(RULES);
        client = RationClient.builder().url(rationd.url).deadline(Duration.ofSeconds(5)).build();
        Sites.GO.drainPermits();
    }

    @AfterEach
    void stop() {
        client.close();
        rationd.close();
    }

    private Sites.Site site(String framework) {
        return Sites.ALL.get(framework).make(builder -> builder.url(rationd.url).deadline(Duration.ofSeconds(5)), null, null);
    }

    private boolean placeIsFree(String path) {
        Decision place = client.acquire(Map.of("path", path));
        return client.release(place.lease()).isPresent();
    }

    @ParameterizedTest
    @CsvSource({"servlet, /stream", "servlet, /async", "spring, /stream", "spring, /async"})
    void placesAreFreeWhenTheResponseHasBeenSent(String framework, String path) throws Exception {
        try (Sites.Site site = site(framework)) {
            CompletableFuture<HttpResponse<String>> answer = CompletableFuture.supplyAsync(() -> site.ask("GET", path, Map.of()));
            Rationd.waitFor("the request", () -> Sites.GO.hasQueuedThreads());
            assertFalse(placeIsFree(path));
            assertEquals(429, site.ask("GET", path, Map.of()).statusCode());
            assertFalse(answer.isDone());
            Sites.GO.release();
            assertEquals(200, answer.get(30, TimeUnit.SECONDS).statusCode());
            assertEquals("1", answer.get().headers().firstValue("X-RateLimit-Limit").orElse(""));
            Rationd.waitFor("the place", () -> placeIsFree(path));
        }
    }

    @ParameterizedTest
    @CsvSource({"servlet, /stream", "servlet, /async", "spring, /stream", "spring, /async"})
    void placesAreFreeWhenTheClientGoes(String framework, String path) throws Exception {
        try (Sites.Site site = site(framework)) {
            try (Socket socket = new Socket("127.0.0.1", site.port())) {
                socket.setSoLinger(true, 0);
                socket.getOutputStream().write(("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n").getBytes(StandardCharsets.US_ASCII));
                Rationd.waitFor("the request", () -> Sites.GO.hasQueuedThreads());
                assertFalse(placeIsFree(path));
            }
            Sites.GO.release();
            Rationd.waitFor("the place", () -> placeIsFree(path));
        }
    }

    /** Asked once, reported as 500, and the answer has headers; whatever the container dispatches again. */
    @ParameterizedTest
    @CsvSource({"servlet, /raise", "servlet, /send-error", "servlet, /async-error", "servlet, /async-dispatch",
        "spring, /raise", "spring, /send-error", "spring, /async-error"})
    void failuresAreChargedOnce(String framework, String path) {
        try (Sites.Site site = site(framework)) {
            Sites.GO.release(2);
            HttpResponse<String> first = site.ask("GET", path, Map.of());
            assertEquals(500, first.statusCode());
            assertEquals("2", first.headers().firstValue("X-RateLimit-Limit").orElse("none"));
            Rationd.waitFor("the charge", () -> client.check(Map.of("path", path), 0).limits().stream()
                    .allMatch(limit -> limit.remaining() == 1));
        }
    }

    /** Tomcat answers nothing, and never says that the request is complete. */
    @Test
    void aServletThatFailsAsItBecomesAsynchronousIsChargedAndKeepsNoPlace() throws IOException {
        try (Sites.Site site = site("servlet"); Socket socket = new Socket("127.0.0.1", site.port())) {
            socket.getOutputStream().write("GET /async-throw HTTP/1.1\r\nHost: a\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
            Rationd.waitFor("the charge", () -> !client.check(Map.of("path", "/async-throw")).allowed());
            Rationd.waitFor("the place", () -> client.check(Map.of("path", "/async-throw"), 0).limits().stream()
                    .anyMatch(limit -> "places".equals(limit.rule()) && limit.remaining() == 1));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"servlet", "spring"})
    void headIsRefusedWithoutABody(String framework) {
        try (Sites.Site site = site(framework)) {
            assertEquals(200, site.ask("HEAD", "/api", Map.of()).statusCode());
            HttpResponse<String> refused = site.ask("HEAD", "/api", Map.of());
            assertEquals(429, refused.statusCode());
            assertTrue(refused.headers().firstValueAsLong("Content-Length").orElse(0) > 0);
            assertTrue(refused.headers().firstValue("Retry-After").isPresent());
            assertEquals("", refused.body());
        }
    }

    // --- Spring Boot ----------------------------------------------------------------------------

    private static ConfigurableApplicationContext run(String... arguments) {
        return new SpringApplicationBuilder(Sites.App.class).properties("server.port=0", "spring.main.banner-mode=off", "logging.level.root=off",
                "spring.main.register-shutdown-hook=false").run(arguments);
    }

    @Test
    void propertiesAreTheSettings() {
        try (var context = run("--ration.url=ration://127.0.0.1:" + rationd.url.replaceAll(".*:", ""), "--ration.policy=refuse", "--ration.deadline=5s",
                "--ration.connections=1", "--ration.failures=3", "--ration.silence=2", "--ration.probe-first=50ms", "--ration.probe-most=1s",
                "--ration.local-key=user,ip", "--ration.wait=2s", "--ration.order=7")) {
            RationClient made = context.getBean(RationClient.class);
            assertEquals("rationd", made.take("ann", "9 per hour").by());
            assertEquals(7, context.getBean("rationFilter", FilterRegistrationBean.class).getOrder());
            rationd.kill();
            assertEquals(503, made.take("ann", "9 per hour").status());
            rationd.start();
        }
    }

    @Test
    void itCanBeTurnedOff() {
        try (var context = run("--ration.enabled=false")) {
            assertEquals(0, context.getBeanNamesForType(RationClient.class).length);
            assertFalse(context.containsBean("rationFilter"));
        }
    }

    @Test
    void aWrongPropertyStopsTheStart() {
        Throwable error = org.junit.jupiter.api.Assertions.assertThrows(RuntimeException.class, () -> run("--ration.policy=maybe").close());
        while (error.getCause() != null) {
            error = error.getCause();
        }
        assertTrue(error.getMessage().contains("100 per second"), error.getMessage());
    }

    @Test
    void theFilterIsNamedByItsClass() {
        try (var context = run()) {
            assertTrue(context.getBean("rationFilter", FilterRegistrationBean.class).getFilter() instanceof RationFilter);
        }
    }
}
