// SPDX-License-Identifier: Apache-2.0
// The parts of the client by themselves: local limit, breaker, headers, backoff, addresses, arguments.

package io.github.ration.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PartsTest {
    @Test
    void ofTwoAddressesOfANameOneMayBeDead() throws IOException {
        List<SocketChannel> full = new ArrayList<>();
        try (ServerSocketChannel alive = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
                ServerSocketChannel dead = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.2", 0), 1);
                Selector selector = Selector.open()) {
            for (int i = 0; i < 8; i++) { // more than it holds: later ones get no answer at all
                SocketChannel one = SocketChannel.open();
                one.configureBlocking(false);
                one.connect(dead.getLocalAddress());
                full.add(one);
            }
            List<SocketAddress> targets = List.of(InetSocketAddress.createUnresolved("rationd.test", 1), dead.getLocalAddress(), alive.getLocalAddress());
            Address address = new Address("ration://rationd.test", "", null);
            Wire.connect(address, targets, selector, System.nanoTime() + TimeUnit.SECONDS.toNanos(3)).close();
            alive.accept().close();
        } finally {
            for (SocketChannel one : full) {
                one.close();
            }
        }
    }

    @Test
    void aLocalLimitRefillsAndForgets() {
        LocalLimit limit = new LocalLimit("1 per hour burst 2");
        assertTrue(limit.take("a", 2, "").allowed());
        assertFalse(limit.take("a", 1, "").allowed());
        assertNull(limit.take("a", 3, "").retryAfter());
        LocalLimit quick = new LocalLimit("1000000 per second burst 1");
        for (int i = 0; i < 3; i++) {
            long began = System.nanoTime();
            while (!quick.take("a", 1, "").allowed()) {
                assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(30), "it does not refill");
            }
        }
        for (int i = 0; i < 20_000; i++) {
            limit.take("a", 0, ""); // used all the time: it is never the eldest
            limit.take(Integer.toString(i), 1, "");
        }
        assertEquals(LocalLimit.MOST_KEYS, limit.keys());
        assertFalse(limit.take("a", 1, "").allowed());
        assertTrue(limit.take("0", 2, "").allowed()); // forgotten
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "many", "0 per second", "5 per 0 seconds", "5 per fortnight", "-1 per second", "5 per second burst 0"})
    void aLocalLimitMustBeOne(String text) {
        String message = assertThrows(IllegalArgumentException.class, () -> new LocalLimit(text)).getMessage();
        assertTrue(message.contains("local limit"), message);
    }

    @Test
    void theBreakerAdmitsOneProbeAtATime() {
        List<String> events = new ArrayList<>();
        long probe = TimeUnit.MILLISECONDS.toNanos(20);
        Breaker breaker = new Breaker(2, new Jitter(probe, probe), (name, detail) -> events.add(name));
        breaker.failed("1");
        breaker.succeeded();
        breaker.failed("2");
        assertTrue(breaker.admits() && !breaker.isOpen());
        breaker.failed("3");
        assertTrue(breaker.isOpen());
        int probes = 0;
        int refused = 0;
        for (long began = System.nanoTime(); probes < 3 && System.nanoTime() - began < TimeUnit.SECONDS.toNanos(30); ) {
            if (breaker.admits()) {
                probes++;
            } else {
                refused++;
            }
        }
        assertTrue(probes == 3 && refused > 3, probes + " probes, " + refused + " refused");
        breaker.succeeded();
        assertTrue(!breaker.isOpen() && breaker.admits());
        assertEquals(List.of("breaker_open", "breaker_closed"), events);
    }

    @Test
    void jitterGrowsWithinItsBounds() {
        Jitter jitter = new Jitter(100, 2000);
        long most = 0;
        for (int i = 0; i < 1000; i++) {
            long next = jitter.next();
            assertTrue(next >= 100 && next <= 2000);
            most = Math.max(most, next);
        }
        assertEquals(2000, most);
        jitter.reset();
        assertTrue(jitter.next() <= 300);
    }

    private static Map<String, Object> limit(String rule) {
        return new HashMap<>(Map.of("rule", rule, "limit", 5L, "remaining", 4L, "reset_after", 1.2, "amount", 5L, "period", 60L));
    }

    private static Decision decision(Map<String, Object> more, String... rules) throws BadAnswer {
        Map<String, Object> members = new HashMap<>(Map.of("allowed", true, "limit", 5L, "remaining", 4L, "reset_after", 1.2, "retry_after", 0L, "delay", 0L));
        members.put("rule", rules.length == 0 ? null : rules[0]);
        members.put("limits", Arrays.stream(rules).map(PartsTest::limit).toList());
        members.putAll(more);
        return Decision.read(members);
    }

    @Test
    void namesInHeadersAreUniqueAndQuoted() throws BadAnswer {
        String state = decision(Map.of(), "api", "api", "api-2", "a\"\\b", "ü€\uD83D\uDE00\n").headers().get("RateLimit");
        List<String> names = Arrays.stream(state.split(", ")).map(item -> item.split(";")[0]).toList();
        assertEquals(List.of("\"api\"", "\"api-3\"", "\"api-2\"", "\"a\\\"\\\\b\"", "\"????\""), names);
    }

    @Test
    void aBodyIsJsonWhateverIsInIt() throws BadAnswer {
        Decision banned = decision(Map.of("allowed", false, "banned", true, "level", 2L, "status", 403L, "message", "a\"b\\\n\u2028ü",
                "retry_after", 1.01, "decided_by", 0L), "a\u0001b");
        String body = new String(banned.body("text/html, Application/Problem+JSON").content(), StandardCharsets.UTF_8);
        assertTrue(body.startsWith("{\"type\":\"https://iana.org/assignments/http-problem-types#abnormal-usage-detected\","
                + "\"title\":\"Abnormal Usage Detected\",\"status\":403,\"detail\":\"a\\\"b\\\\\\u000a\u2028ü\","), body);
        assertTrue(body.contains("\"rule\":\"a\\u0001b\"") && body.contains("\"window\":60") && body.contains("\"level\":2"), body);
        assertEquals("2", banned.headers().get("Retry-After"));
        assertEquals("2", banned.headers().get("X-RateLimit-Ban-Level"));
        assertEquals("application/json", banned.body(null).contentType());
    }

    @Test
    void numbersOfStructuredFieldsAreBounded() throws BadAnswer {
        Map<String, Object> large = limit("api");
        large.putAll(Map.of("limit", Long.MAX_VALUE, "remaining", Long.MAX_VALUE, "amount", 1L, "period", 1e15));
        Map<String, String> headers = decision(Map.of("limits", List.of(large))).headers();
        assertEquals("\"api\";q=999999999999999;w=999999999999999", headers.get("RateLimit-Policy"));
        assertEquals("\"api\";r=999999999999999;t=2", headers.get("RateLimit"));
    }

    @Test
    void backoffHonoursRetryAfterAndGrows() {
        IntStream.range(0, 100).forEach(i -> {
            long ms = Backoff.after(0, "7").toMillis();
            assertTrue(ms >= 7000 && ms <= 7200);
        });
        assertTrue(IntStream.range(0, 200).mapToLong(i -> Backoff.after(0).toMillis()).max().orElse(0) <= 200);
        long late = IntStream.range(0, 200).mapToLong(i -> Backoff.after(1000).toMillis()).max().orElse(0);
        assertTrue(late > 200 && late <= 10_000);
        assertThrows(IllegalArgumentException.class, () -> Backoff.after(-1));
    }

    @Test
    void retryAfterIsSecondsOrADateOfHttp() {
        ZonedDateTime soon = ZonedDateTime.now(ZoneOffset.UTC).plusSeconds(60);
        for (String form : List.of("EEE, dd MMM yyyy HH:mm:ss 'GMT'", "EEEE, dd-MMM-yy HH:mm:ss 'GMT'", "EEE MMM ppd HH:mm:ss yyyy")) {
            Duration rest = Backoff.retryAfter(soon.format(DateTimeFormatter.ofPattern(form, java.util.Locale.US)));
            assertTrue(rest != null && rest.toSeconds() >= 50 && rest.toSeconds() <= 60, form + ": " + rest);
        }
        assertEquals(Duration.ZERO, Backoff.retryAfter("Sun, 06 Nov 1994 08:49:37 GMT"));
        assertEquals(Duration.ofSeconds(999_999_999), Backoff.retryAfter("99999999999999999999"));
        for (String nothing : Arrays.asList(null, "soon", "", "-5", "Wed, 99 Nov", "1.5")) {
            assertNull(Backoff.retryAfter(nothing), nothing);
        }
    }

    @Test
    void addressesAreReadAndDoNotShowTheirToken() {
        Map<String, String> shown = Map.of("ration://localhost", "ration://localhost:6380", "ration://my_service:7", "ration://my_service:7",
                "ration://[::1]:7/", "ration://[::1]:7", "ration://:a%2Bb+c@host", "ration://host:6380", "rations://ann:secret@host:1", "rations://host:1",
                "unix:/run/x y.sock", "unix:/run/x y.sock", "unix:///run/a", "unix:///run/a");
        shown.forEach((url, text) -> assertEquals(text, new Address(url, null, null).toString()));
        String greeting = new String(new Address("ration://ann:a%2Bb+c@host", null, null).greeting(), StandardCharsets.UTF_8);
        assertEquals("*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$5\r\na+b+c\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", greeting);
        for (String url : Arrays.asList(null, "", "localhost:6380", "http://host", "ration://", "ration://host:99999", "ration://host:x", "unix:", "redis://host")) {
            String message = assertThrows(IllegalArgumentException.class, () -> new Address(url, null, null)).getMessage();
            assertTrue(message.contains("ration://"), message);
        }
    }

    @Test
    void argumentsAreCutAndChecked() {
        assertEquals("*2\r\n$1\r\nX\r\n$6\r\nRULES \r\n", new String(new Command("X").keyButRules("RULES").bytes(), StandardCharsets.UTF_8));
        assertTrue(new Command("X").attributes(Map.of("ip", "x".repeat(100_000))).bytes().length < 8300);
        Map<String, Object> many = new HashMap<>();
        IntStream.range(0, 128).forEach(i -> many.put("n" + i, new byte[9000]));
        assertTrue(new Command("X").attributes(many).bytes().length < 205_000);
        many.put("one.more", 1);
        for (Map<String, ?> wrong : List.<Map<String, ?>>of(many, Map.of(), Map.of("", 1), Map.of("Ip", 1), Map.of("ip", List.of()))) {
            assertThrows(IllegalArgumentException.class, () -> new Command("X").attributes(wrong));
        }
        assertEquals("*5\r\n$1\r\nX\r\n$1\r\na\r\n$4\r\ntrue\r\n$3\r\nFOR\r\n$5\r\n1.500\r\n",
                new String(new Command("X").attributes(Map.of("a", true)).lasting(Duration.ofMillis(1500)).bytes(), StandardCharsets.UTF_8));
    }

    @Test
    void wrongSettingsAreErrorsThatSayWhatWouldBeRight() {
        List<RationClient.Builder> wrong = List.of(RationClient.builder().deadline(Duration.ofSeconds(61)), RationClient.builder().deadline(null),
                RationClient.builder().connections(0), RationClient.builder().failures(0), RationClient.builder().silence(0),
                RationClient.builder().probeFirst(Duration.ZERO), RationClient.builder().policy(null), RationClient.builder().url(null));
        for (RationClient.Builder settings : wrong) {
            assertTrue(assertThrows(IllegalArgumentException.class, settings::build).getMessage().matches(".*(must|1 or more).*"));
        }
    }
}
