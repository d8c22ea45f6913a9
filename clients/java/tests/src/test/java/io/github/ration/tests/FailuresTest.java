// SPDX-License-Identifier: Apache-2.0
// rationd is killed and frozen while requests come: nobody waits for longer than the deadline, the policy holds, the client comes
// back by itself, and nothing is left behind. Twice; with RATION_SOAK=1 ten times, and then a million requests. Figures are
// printed; the bounds asserted are generous, as machines that run tests are busy.

package io.github.ration.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.ration.client.RationClient;
import java.io.File;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class FailuresTest {
    private static final boolean SOAK = System.getenv("RATION_SOAK") != null;
    private static final int ROUNDS = SOAK ? 10 : 2;
    private static final int REQUESTS = SOAK ? 1_000_000 : 20_000;
    private static final double DEADLINE = 0.05;
    private static final double GENEROUS = 1.0;
    private static final int CALLERS = 8;
    private static final String RULES = "limits:\n  - {name: api, key: ip, limit: 1000000000 per hour}\n";

    private static RationClient.Builder settings(RationClient.Builder builder, Rationd rationd) {
        return builder.url(rationd.url).deadline(Duration.ofMillis(50)).probeMost(Duration.ofMillis(500));
    }

    /** What the callers have met: how long each request took, and who decided it. */
    private static final class Seen {
        final Queue<Double> times = new ConcurrentLinkedQueue<>();
        final Queue<Double> late = new ConcurrentLinkedQueue<>();
        final Queue<Double> sleeps = new ConcurrentLinkedQueue<>(); // how long a mere sleep of the deadline takes meanwhile
        final AtomicInteger byRationd = new AtomicInteger();
        final AtomicInteger byPolicy = new AtomicInteger();
        final Queue<Object> faults = new ConcurrentLinkedQueue<>();

        void ask(Sites.Site site) {
            long began = System.nanoTime();
            try {
                HttpResponse<String> response = site.ask("GET", "/", Map.of());
                double took = (System.nanoTime() - began) / 1e9;
                String by = response.headers().firstValue("X-Decided-By").orElse("nobody");
                times.add(took);
                if (by.contains("deadline")) {
                    late.add(took);
                }
                (by.startsWith("rationd") ? byRationd : byPolicy).incrementAndGet();
                if (response.statusCode() != 200 || by.equals("nobody")) {
                    faults.add(response.statusCode() + " " + by);
                }
            } catch (RuntimeException error) {
                faults.add(error);
            }
        }

        void grows(AtomicInteger by, String who) {
            int goal = by.get() + 50;
            Rationd.waitFor("50 more decisions by " + who, () -> by.get() >= goal || !faults.isEmpty());
        }

        static double ms(Queue<Double> values, double share) {
            List<Double> ordered = new ArrayList<>(values);
            ordered.sort(null);
            return ordered.isEmpty() ? 0 : 1000 * ordered.get(Math.min(ordered.size() - 1, (int) (ordered.size() * share)));
        }

        void report(String what) {
            System.out.println(String.format(Locale.ROOT, "%s: requests %d, by policy %d, p99_ms %.1f, most_ms %.1f, p99_of_a_sleep_ms %.1f, "
                    + "deadline_passed %d, p99_of_those_ms %.1f, most_of_those_ms %.1f", what, times.size(), byPolicy.get(), ms(times, 0.99), ms(times, 1),
                    ms(sleeps, 0.99), late.size(), ms(late, 0.99), ms(late, 1)));
        }
    }

    /** Each round kills and freezes it, and waits until the policy decides, and until rationd does again. */
    private static void trouble(Rationd rationd, Seen seen) {
        seen.grows(seen.byRationd, "rationd");
        for (int round = 0; round < ROUNDS; round++) {
            rationd.freeze();
            seen.grows(seen.byPolicy, "policy");
            rationd.thaw();
            seen.grows(seen.byRationd, "rationd");
            rationd.kill();
            seen.grows(seen.byPolicy, "policy");
            rationd.start();
            seen.grows(seen.byRationd, "rationd");
        }
    }

    private static int openFiles() {
        return new File("/proc/self/fd").list().length;
    }

    private static long threads() {
        return Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().startsWith("ration-")).count();
    }

    private static Thread repeating(AtomicBoolean stop, Runnable work) {
        Thread thread = new Thread(() -> {
            while (!stop.get()) {
                work.run();
            }
        });
        thread.start();
        return thread;
    }

    @ParameterizedTest
    @ValueSource(strings = {"servlet", "spring"})
    void underLoad(String framework) throws Exception {
        Seen seen = new Seen();
        try (Rationd rationd = new Rationd("127.0.0.1:" + Rationd.freePort(), RULES)) {
            int before;
            try (Sites.Site site = Sites.ALL.get(framework).make(builder -> settings(builder, rationd), null, null)) {
                for (int i = 0; i < 200; i++) {
                    seen.ask(site); // until the frameworks are warm
                }
                seen.times.clear();
                before = openFiles();
                AtomicBoolean stop = new AtomicBoolean();
                List<Thread> threads = new ArrayList<>();
                for (int i = 0; i < CALLERS; i++) {
                    threads.add(repeating(stop, () -> {
                        seen.ask(site);
                        Rationd.pause(2);
                    }));
                }
                threads.add(repeating(stop, () -> {
                    long began = System.nanoTime();
                    Rationd.pause((long) (1000 * DEADLINE));
                    seen.sleeps.add((System.nanoTime() - began) / 1e9);
                }));
                try {
                    trouble(rationd, seen);
                } finally {
                    stop.set(true);
                    for (Thread thread : threads) {
                        thread.join();
                    }
                }
                seen.report(framework);
                assertTrue(seen.faults.isEmpty(), () -> seen.faults.toString());
                assertTrue(Seen.ms(seen.times, 0.99) < 1000 * (DEADLINE + GENEROUS));
            }
            Rationd.waitFor("connections to be closed", () -> openFiles() <= before + CALLERS);
            Rationd.waitFor("threads to end", () -> threads() == 0);
        }
    }

    private static long usedMemory() {
        Runtime runtime = Runtime.getRuntime();
        long least = Long.MAX_VALUE;
        for (int i = 0; i < 5; i++) {
            System.gc();
            Rationd.pause(20);
            least = Math.min(least, runtime.totalMemory() - runtime.freeMemory());
        }
        return least;
    }

    /** By rationd, and by policy with a key for each request. */
    @Test
    void manyRequestsLeaveNothingBehind() throws IOException {
        try (Rationd rationd = new Rationd("127.0.0.1:" + Rationd.freePort(), RULES);
                RationClient client = settings(RationClient.builder(), rationd).deadline(Duration.ofSeconds(5)).policy("5 per second").build()) {
            ask(client, 5000);
            int files = openFiles();
            long memory = usedMemory();
            long began = System.nanoTime();
            ask(client, REQUESTS);
            double seconds = (System.nanoTime() - began) / 1e9;
            long grown = usedMemory() - memory;
            System.out.println(String.format(Locale.ROOT, "%d requests in %.1f s: the heap grew by %d KB", REQUESTS, seconds, grown / 1024));
            assertEquals(files, openFiles());
            assertTrue(grown < 4 << 20, grown + " bytes");
            rationd.kill();
            for (int i = 0; i < 25_000; i++) {
                client.check(Map.of("ip", i));
            }
            long local = usedMemory() - memory;
            assertTrue(local < 8 << 20, local + " bytes");
            rationd.start();
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(Rationd.PATIENCE_SECONDS);
            while (!client.check(Map.of("ip", "192.0.2.7")).by().equals("rationd")) {
                assertTrue(System.nanoTime() - until < 0);
                Rationd.pause(10);
            }
        }
    }

    private static void ask(RationClient client, int count) {
        for (int i = 0; i < count; i++) {
            assertEquals("rationd", client.check(Map.of("ip", "192.0.2." + i % 250, "path", "/")).by());
        }
    }
}
