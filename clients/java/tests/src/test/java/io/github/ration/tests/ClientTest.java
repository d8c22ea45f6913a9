// SPDX-License-Identifier: Apache-2.0
// What the table of scenarios cannot say: interrupts, TLS, callbacks, closing, giving back, servers that do not read.

package io.github.ration.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.ration.client.Decision;
import io.github.ration.client.RationClient;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.IntStream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ClientTest {
    private static final String RULES = "limits:\n  - {name: api, key: ip, limit: 100 per hour}\n";
    private static final Map<String, Object> ASKED = Map.of("ip", "192.0.2.7");

    private static RationClient.Builder patient(String url) {
        return RationClient.builder().url(url).deadline(Duration.ofSeconds(5)).connections(1).failures(1000);
    }

    private static Map<String, String> bytes() {
        @SuppressWarnings("unchecked")
        Map<String, String> bytes = (Map<String, String>) Scenario.TABLE.get("bytes");
        return bytes;
    }

    private static String map(String... members) {
        StringBuilder text = new StringBuilder("%" + (8 + members.length / 2) + "\r\n" + bytes().get("seven").substring(4));
        for (String member : members) {
            text.append("+").append(member).append("\r\n");
        }
        return text.toString();
    }

    /** Calls in a thread of its own, interrupts it when the condition holds, and gives its answer. */
    private static <T> T interrupted(Supplier<T> call, Supplier<Boolean> when) throws InterruptedException {
        AtomicReference<T> answer = new AtomicReference<>();
        AtomicReference<Boolean> flag = new AtomicReference<>();
        Thread thread = new Thread(() -> {
            answer.set(call.get());
            flag.set(Thread.currentThread().isInterrupted());
        });
        thread.start();
        Rationd.waitFor("the moment", when::get);
        thread.interrupt();
        thread.join(TimeUnit.SECONDS.toMillis(Rationd.PATIENCE_SECONDS));
        assertEquals(true, flag.get(), "the interrupt must be kept");
        return answer.get();
    }

    private static boolean isParked(String callee) {
        return Thread.getAllStackTraces().entrySet().stream().anyMatch(e -> e.getKey().getState() == Thread.State.TIMED_WAITING
                && List.of(e.getValue()).stream().anyMatch(frame -> frame.getMethodName().equals(callee) && frame.getClassName().endsWith("RationClient")));
    }

    /** So many calls, by 20 threads. */
    private static List<Decision> many(int count, Callable<Decision> call) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(20);
        try {
            List<Decision> answers = new ArrayList<>();
            for (Future<Decision> answer : pool.invokeAll(Collections.nCopies(count, call))) {
                answers.add(answer.get());
            }
            return answers;
        } finally {
            pool.shutdown();
        }
    }

    // --- interrupts -----------------------------------------------------------------------------

    @Test
    void anInterruptedCallerGivesItsPlaceBack() throws Exception {
        try (Rationd rationd = new Rationd(RULES); RationClient client = patient(rationd.url).deadline(Duration.ofSeconds(60)).build()) {
            client.take("warm", "9 per hour");
            rationd.freeze();
            Decision decision = interrupted(() -> client.acquire("job", "1 concurrent"), () -> isParked("acquire"));
            assertEquals("policy", decision.by());
            assertTrue(decision.why().contains("interrupted"), decision.why());
            rationd.thaw();
            Rationd.waitFor("the place", () -> client.acquire("job", "1 concurrent").allowed());
        }
    }

    @Test
    void anInterruptedCallerLeavesTheLine() throws Exception {
        Map<String, Object> fake = Map.of("answers", List.of("*3\r\n+WAIT\r\n:1\r\n:60000\r\n",
                ":0\r\n>3\r\n+ration.turn\r\n:1\r\n" + map("lease", "L1", "turn", "T1"), ":1\r\n", ":1\r\n", "<six>"));
        try (FakeRationd rationd = new FakeRationd(fake, bytes()); RationClient client = patient(rationd.url).build()) {
            Decision decision = interrupted(() -> client.check(ASKED, 1, Duration.ofSeconds(60), true), () -> rationd.seen.size() == 1 && isParked("check"));
            assertEquals("policy", decision.by());
            Rationd.waitFor("all commands", () -> rationd.seen.size() == 4);
            assertEquals(6L, client.check(ASKED).remaining());
            assertEquals(List.of("RATION.CHECK ip 192.0.2.7 LEASE FULL LINE 1 WAIT 60000", "RATION.LEAVE 1"), rationd.seen.subList(0, 2));
            assertTrue(rationd.seen.containsAll(List.of("RATION.RELEASE L1", "RATION.REFUND T1")), () -> rationd.seen.toString());
        }
    }

    @Test
    void aCallerThatComesInterruptedIsNotHeardButItsCommandIsSent() throws Exception {
        try (Rationd rationd = new Rationd(RULES); RationClient client = patient(rationd.url).build()) {
            String lease = client.acquire("job", "1 concurrent").lease();
            rationd.freeze();
            Optional<Boolean> answer = interrupted(() -> {
                Thread.currentThread().interrupt();
                return client.release(lease);
            }, () -> true);
            assertEquals(Optional.empty(), answer);
            rationd.thaw();
            Rationd.waitFor("the place", () -> client.acquire("job", "1 concurrent").allowed());
            assertEquals("rationd", client.take("ann", "9 per hour").by()); // on the same connection: it has not been closed
        }
    }

    @Test
    void interruptsAreNoFailures() throws Exception {
        try (Rationd rationd = new Rationd(RULES); RationClient client = patient(rationd.url).failures(1).build()) {
            client.take("warm", "9 per hour");
            rationd.freeze();
            for (int i = 0; i < 5; i++) {
                interrupted(() -> client.take("ann", "9 per hour"), () -> isParked("take"));
            }
            rationd.thaw();
            assertEquals("rationd", client.take("ann", "9 per hour").by());
        }
    }

    // --- giving back ----------------------------------------------------------------------------

    @Test
    void whatComesTooLateIsGivenBackByItsOwnCommand() throws Exception {
        Map<String, Object> fake = Map.of("answers", List.of("", map("lease", "L1") + map("lease", "L2", "turn", "T2") + ":1\r\n:1\r\n:1\r\n"));
        try (FakeRationd rationd = new FakeRationd(fake, bytes());
                RationClient client = patient(rationd.url).deadline(Duration.ofMillis(200)).silence(1000).build()) {
            assertNull(client.reserve("ann", "9 per hour", 1).lease());
            client.acquire("ann", "9 concurrent");
            Rationd.waitFor("what is given back", () -> rationd.seen.contains("RATION.REFUND L1"));
            assertFalse(rationd.seen.contains("RATION.RELEASE L1"));
        }
    }

    // --- servers that are ill -------------------------------------------------------------------

    @Test
    void aServerThatDoesNotReadHoldsNobody() throws Exception {
        Map<String, Object> large = new HashMap<>();
        IntStream.range(0, 100).forEach(i -> large.put("header.n" + i, "x".repeat(8000)));
        List<String> events = Collections.synchronizedList(new ArrayList<>());
        try (Rationd rationd = new Rationd(RULES); RationClient client = patient(rationd.url).deadline(Duration.ofMillis(50)).silence(1_000_000)
                .onEvent((name, detail) -> events.add(name + " " + detail)).build()) {
            Rationd.waitFor("a connection", () -> client.take("warm", "9 per hour").by().equals("rationd"));
            rationd.freeze();
            Rationd.waitFor("the end of the connection", () -> {
                long began = System.nanoTime();
                client.check(large);
                assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(2));
                return events.stream().anyMatch(event -> event.startsWith("disconnected") && event.contains("does not take commands"));
            });
        }
    }

    @Test
    void aLongCommandIsSentInPieces() throws Exception {
        Map<String, Object> large = new HashMap<>(ASKED);
        IntStream.range(0, 100).forEach(i -> large.put("header.n" + i, "x".repeat(8000)));
        try (Rationd rationd = new Rationd(RULES); RationClient client = patient(rationd.url).build()) {
            for (Decision answer : many(50, () -> client.check(large))) {
                assertEquals("rationd", answer.by(), answer.why());
            }
        }
    }

    @Test
    void aConnectionThatWasLostIsMadeAgainByTheNextRequest() throws Exception {
        try (Rationd rationd = new Rationd(RULES); RationClient client = patient(rationd.url).build()) {
            for (int i = 0; i < 3; i++) {
                assertEquals("rationd", client.check(ASKED).by());
                rationd.kill();
                rationd.start();
            }
            assertEquals("rationd", client.check(ASKED).by());
        }
    }

    // --- callbacks, closing ---------------------------------------------------------------------

    @Test
    void aCallbackThatFailsReachesNobody() throws Exception {
        CountDownLatch called = new CountDownLatch(2);
        try (Rationd rationd = new Rationd(RULES); RationClient client = patient(rationd.url).onEvent((name, detail) -> {
            called.countDown();
            throw new IllegalStateException("a test of callbacks that fail: " + name);
        }).build()) {
            assertEquals("rationd", client.check(ASKED).by());
            client.take("ann", "no limit");
            assertTrue(called.await(30, TimeUnit.SECONDS)); // the second event arrives, too
        }
    }

    @Test
    void withoutACallbackEachTroubleIsAWarningOnce() throws Exception {
        List<String> logged = Collections.synchronizedList(new ArrayList<>());
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord line) {
                if (line.getMessage().contains("fortnight") || line.getMessage().contains("hourglass")) {
                    logged.add(line.getLevel() + " " + line.getMessage());
                }
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger log = Logger.getLogger(RationClient.class.getName());
        Level before = log.getLevel();
        log.setLevel(Level.WARNING); // Spring's tests in this JVM may have changed that of all loggers
        log.addHandler(handler);
        try (Rationd rationd = new Rationd(RULES); RationClient client = patient(rationd.url).build()) {
            for (int i = 0; i < 3; i++) {
                assertEquals("policy", client.take("ann", "5 per fortnight").by());
            }
            client.take("ann", "5 per hourglass"); // its warning comes after all of the other one
            Rationd.waitFor("the warnings", () -> logged.stream().anyMatch(line -> line.contains("hourglass")));
            assertEquals(2, logged.size(), logged.toString());
            assertTrue(logged.get(0).startsWith("WARNING error_reply: "), logged.toString());
        } finally {
            log.removeHandler(handler);
            log.setLevel(before);
        }
    }

    @Test
    void wrongSettingsSayWhatWasFound() {
        for (String[] each : new String[][] {{"http://:secret@h:8080", "found http://h:8080"}, {"ration://h:65536", "found ration://h:65536"},
                {"ration://secret@h", "with a token ration://:token@host:port"}, {null, "found null"}}) {
            String message = assertThrows(IllegalArgumentException.class, () -> RationClient.builder().url(each[0]).build()).getMessage();
            assertTrue(message.contains(each[1]), message);
        }
        String message = assertThrows(IllegalArgumentException.class,
                () -> RationClient.builder().probeFirst(Duration.ofSeconds(3)).build()).getMessage();
        assertTrue(message.contains("probeMost must not be less than probeFirst, PT3S, found PT2S"), message);
        try (RationClient client = RationClient.builder().build()) {
            assertThrows(IllegalArgumentException.class, () -> client.check(null));
            assertThrows(IllegalArgumentException.class, () -> client.pause("stripe", Duration.ofSeconds(-1)));
        }
    }

    @Test
    void aCallbackMayAskAndMayBeSlow() throws Exception {
        AtomicReference<RationClient> asking = new AtomicReference<>();
        CompletableFuture<String> asked = new CompletableFuture<>();
        try (Rationd rationd = new Rationd(RULES); RationClient client = patient(rationd.url).onEvent((name, detail) -> {
            if (name.equals("connected")) {
                asked.complete(asking.get().take("from callback", "9 per hour").by());
                Rationd.pause(300);
            }
        }).build()) {
            asking.set(client);
            client.check(ASKED);
            assertEquals("rationd", asked.get(30, TimeUnit.SECONDS));
            assertEquals("rationd", client.check(ASKED).by());
        }
    }

    private static long threads(String name) {
        return Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().equals(name)).count();
    }

    @Test
    void closingEndsCallsThreadsAndConnections() throws Exception {
        try (Rationd rationd = new Rationd(RULES)) {
            RationClient client = patient(rationd.url).deadline(Duration.ofSeconds(60)).connections(3).policy("refuse").build();
            assertEquals("rationd", client.check(ASKED).by());
            rationd.freeze();
            CompletableFuture<Decision> underWay = CompletableFuture.supplyAsync(() -> client.acquire("job", "1 concurrent"));
            Rationd.waitFor("the call", () -> isParked("acquire"));
            client.close();
            assertTrue(underWay.get(30, TimeUnit.SECONDS).why().contains("closed"));
            assertTrue(client.check(ASKED).why().contains("closed"));
            client.close(); // again
            rationd.thaw();
        }
        Rationd.waitFor("threads to end", () -> threads("ration-connection") == 0 && threads("ration-events") == 0);
    }

    @Test
    void aClientConnectsToNothingUntilItIsAsked() throws Exception {
        try (RationClient client = patient("ration://127.0.0.1:" + Rationd.freePort()).onEvent((name, detail) -> {
            throw new AssertionError(name);
        }).build()) {
            assertEquals(0, threads("ration-connection") + threads("ration-events"));
            assertEquals(Optional.empty(), client.release(null));
            assertEquals(0, threads("ration-connection"));
        }
    }

    @Test
    void aTokenMayBePartOfTheAddress() throws Exception {
        String rules = RULES + "server: {admin_token: open-sesame-open, trust_local: false}\n";
        try (Rationd rationd = new Rationd(rules); RationClient client = patient(rationd.url.replace("//", "//:open-sesame-open@")).build()) {
            assertTrue(client.pause("stripe", Duration.ofSeconds(120)).orElseThrow().toSeconds() > 100);
            assertEquals(Optional.empty(), client.pause("stripe", (String) null));
        }
    }

    @Test
    void aKeyOfTheLocalLimitMayBeBytes() throws Exception {
        try (RationClient client = patient("ration://127.0.0.1:" + Rationd.freePort()).policy("1 per hour").build()) {
            assertTrue(client.check(Map.of("user", new byte[] {1, (byte) 200})).allowed());
            assertFalse(client.check(Map.of("user", new byte[] {1, (byte) 200})).allowed());
            assertTrue(client.check(Map.of("user", new byte[] {1, (byte) 201})).allowed());
        }
    }

    /** The thread of the connection that was given up ends while the next attempt is under way. */
    @Test
    void aConnectionThatEndsDoesNotEndTheNextAttempt() throws Exception {
        Map<String, Object> fake = Map.of("answers", List.of(""), "then", "<six>");
        try (FakeRationd rationd = new FakeRationd(fake, bytes());
                RationClient client = patient(rationd.url).deadline(Duration.ofSeconds(2)).silence(2).build()) {
            assertEquals("policy", client.take("ann", "9 per hour").by());
            Thread.sleep(2500); // more than 4 seconds since the command: silent for too long
            Decision next = client.take("ann", "9 per hour");
            assertEquals("rationd", next.by(), next.why());
        }
    }

    // --- TLS ------------------------------------------------------------------------------------

    private static SSLContext trusting(Path certificate) throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream in = Files.newInputStream(certificate)) {
            store.setCertificateEntry("rationd", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    @Test
    void tls(@TempDir Path folder) throws Exception {
        new ProcessBuilder("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem",
                "-out", "cert.pem", "-days", "30", "-subj", "/CN=rationd", "-addext", "subjectAltName=IP:127.0.0.1")
                .directory(folder.toFile()).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor();
        SSLContext trust = trusting(folder.resolve("cert.pem"));
        int port = Rationd.freePort();
        try (Rationd rationd = new Rationd("0.0.0.0:" + port, RULES, "--tls-cert", folder + "/cert.pem", "--tls-key", folder + "/key.pem")) {
            String url = "rations://127.0.0.1:" + port;
            try (RationClient client = patient(url).tls(trust).build()) {
                List<Decision> crowd = many(60, () -> client.take("crowd", "99 per hour"));
                assertEquals(IntStream.range(39, 99).mapToObj(Long::valueOf).toList(), crowd.stream().map(Decision::remaining).sorted().toList());
                Map<String, Object> large = new HashMap<>(ASKED);
                IntStream.range(0, 100).forEach(i -> large.put("header.n" + i, "x".repeat(8000)));
                for (Decision answer : many(30, () -> client.check(large))) {
                    assertEquals("rationd", answer.by(), answer.why());
                }
                rationd.kill();
                rationd.start();
                assertEquals(8L, client.take("ann", "9 per hour").remaining());
            }
            try (RationClient stranger = patient(url).build()) {
                assertTrue(stranger.take("ann", "9 per hour").why().contains("certification path"), () -> stranger.take("ann", "9 per hour").why());
            }
            try (RationClient otherName = patient("rations://127.0.0.2:" + port).tls(trust).build()) {
                assertTrue(otherName.take("ann", "9 per hour").why().contains("127.0.0.2"), () -> otherName.take("ann", "9 per hour").why());
            }
            assertThrows(IllegalArgumentException.class, () -> patient("ration://127.0.0.1:" + port).tls(trust).build());
            try (RationClient plain = patient("ration://127.0.0.1:" + port).deadline(Duration.ofMillis(500)).build()) {
                assertEquals("policy", plain.take("ann", "9 per hour").by());
            }
        }
        try (Rationd plain = new Rationd(RULES); RationClient client = patient(plain.url.replace("ration:", "rations:")).tls(trust).build()) {
            assertEquals("policy", client.take("ann", "9 per hour").by());
        }
    }
}
