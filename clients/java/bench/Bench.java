// SPDX-License-Identifier: Apache-2.0
// What a decision costs the program that asks: the Java client beside a bare socket loop.
//
// usage: java -cp ration-client.jar Bench.java BUILD [--quick]
//
// Processor time is that of this process, the best of some rounds, with the compiler's and the collector's in it; rationd's own is
// not. Rates are those of this machine at this moment, with rationd on the same one.

import io.github.ration.client.Decision;
import io.github.ration.client.RationClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;

final class Bench {
    private static final String RULES = "limits:\n  - {name: api, key: ip, limit: 1000000000 per hour, when: {path: /api}}\n";
    private static final Map<String, String> ASKED = Map.of("ip", "192.0.2.7", "path", "/api");
    private static final String LIMIT = "1000000000 per hour";
    private static final int CALLERS = 50;
    private static int rounds = 9;
    private static int calls = 40_000;

    private interface Work {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 1) {
            rounds = 3;
            calls = 5_000;
        }
        Path folder = Files.createTempDirectory("ration-bench");
        Path rules = Files.writeString(folder.resolve("rules.yaml"), RULES);
        Process rationd = new ProcessBuilder(Path.of(arguments[0]).resolve("rationd").toString(), "--config", rules.toString(), "--resp", "127.0.0.1:0",
                "--http", "none", "--grpc", "none", "--admin", "none", "--state", "none").redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        try {
            compare(portOf(rationd.errorReader()));
        } finally {
            rationd.destroy();
            rationd.waitFor();
            Files.delete(rules);
            Files.delete(folder);
        }
    }

    private static int portOf(BufferedReader log) throws IOException {
        String line = log.readLine();
        while (!line.startsWith("rationd: ready")) {
            line = log.readLine();
        }
        return Integer.parseInt(line.replaceAll(".*resp=\\S*:(\\d+).*", "$1"));
    }

    private static void compare(int port) throws Exception {
        System.out.printf("%-44s %11s %14s%n", "client", "CPU a decision", "decisions");
        measure("java bare socket, replies not read", bare(port));
        try (RationClient client = RationClient.builder().url("ration://127.0.0.1:" + port).deadline(Duration.ofSeconds(5)).build()) {
            measure("java RationClient.check(), one at a time", () -> repeat(() -> client.check(ASKED), calls));
            measure("java RationClient.take(), one at a time", () -> repeat(() -> client.take("ann", LIMIT), calls));
            measure("java RationClient.check(), " + CALLERS + " threads", () -> inThreads(() -> client.check(ASKED)));
            measure("java RationClient.take(), " + CALLERS + " threads", () -> inThreads(() -> client.take("ann", LIMIT)));
        }
    }

    private static long processorTime() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static void measure(String name, Work work) throws Exception {
        double cpu = Double.MAX_VALUE;
        double wall = Double.MAX_VALUE;
        for (int round = 0; round < rounds; round++) {
            long used = processorTime();
            long began = System.nanoTime();
            work.run();
            wall = Math.min(wall, (System.nanoTime() - began) / 1e9);
            cpu = Math.min(cpu, (processorTime() - used) / 1e3);
        }
        System.out.println(String.format(Locale.ROOT, "%-44s %8.2f us %,12.0f/s", name, cpu / calls, calls / wall));
    }

    private static void repeat(Supplier<Decision> call, int count) {
        for (int i = 0; i < count; i++) {
            Decision decision = call.get();
            if (!decision.by().equals("rationd")) {
                throw new IllegalStateException(decision.toString());
            }
        }
    }

    private static void inThreads(Supplier<Decision> call) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < CALLERS; i++) {
            threads.add(new Thread(() -> repeat(call, calls / CALLERS)));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static byte[] encoded(String... words) {
        StringBuilder text = new StringBuilder("*" + words.length + "\r\n");
        for (String word : words) {
            text.append('$').append(word.length()).append("\r\n").append(word).append("\r\n");
        }
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }

    /** A command that is made once; reads until the reply has all its bytes. */
    private static Work bare(int port) throws IOException {
        Socket socket = new Socket("127.0.0.1", port);
        socket.setTcpNoDelay(true);
        byte[] buffer = new byte[65536];
        socket.getOutputStream().write(encoded("HELLO", "3"));
        socket.getInputStream().read(buffer);
        byte[] command = encoded("RATION.CHECK", "ip", "192.0.2.7", "path", "/api", "FULL", "WAIT", "return");
        return () -> {
            InputStream in = socket.getInputStream();
            for (int i = 0; i < calls; i++) {
                socket.getOutputStream().write(command);
                int size = in.read(buffer);
                while (buffer[size - 1] != '\n') {
                    size = in.read(buffer);
                }
            }
        };
    }
}
