// SPDX-License-Identifier: Apache-2.0
// A rationd of one's own, on a free port or a unix socket, for one test. RATION_BUILD names the folder of the program.

package io.github.ration.tests;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

final class Rationd implements AutoCloseable {
    static final Path ROOT = root();
    static final long PATIENCE_SECONDS = 60; // until something counts as hung, on a busy machine
    private static final List<FileChannel> CLAIMS = new ArrayList<>();

    final String url;
    private final Path folder;
    private final List<String> command;
    private final StringBuffer log = new StringBuffer();
    private Process process;

    /** {@code place}: what --resp gets. */
    Rationd(String place, String rules, String... options) throws IOException {
        folder = Files.createTempDirectory("ration");
        Path file = Files.writeString(folder.resolve("rules.yaml"), rules);
        String build = System.getenv("RATION_BUILD");
        Path program = (build == null ? ROOT.resolve("build") : Path.of(build)).resolve("rationd");
        command = new ArrayList<>(List.of(program.toString(), "--config", file.toString(), "--resp", place, "--http", "none",
                "--grpc", "none", "--admin", "none", "--state", "none", "--workers", "1", "--memory", "2M"));
        command.addAll(List.of(options));
        url = place.startsWith("unix:") ? place : "ration://" + place;
        start();
    }

    Rationd(String rules) throws IOException {
        this("127.0.0.1:" + freePort(), rules);
    }

    private static Path root() {
        Path folder = Path.of("").toAbsolutePath();
        while (!Files.exists(folder.resolve("clients/scenarios.yaml"))) {
            folder = folder.getParent();
        }
        return folder;
    }

    /**
     * Not one of those that the kernel gives to clients: a server that is started again would find it taken. Nor one that was given
     * out before, here or by a run beside this one: the lock of a file ends with its process.
     */
    static synchronized int freePort() throws IOException {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(10240, 32768);
            Path file = Path.of(System.getProperty("java.io.tmpdir"), "ration-test-port-" + port);
            FileChannel claim = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            try (ServerSocket probe = new ServerSocket(port, 1, InetAddress.getByName("127.0.0.1"))) {
                if (probe.isBound() && claim.tryLock() != null) {
                    file.toFile().deleteOnExit();
                    CLAIMS.add(claim);
                    return port;
                }
            } catch (IOException | OverlappingFileLockException taken) {
                // another one
            }
            claim.close();
        }
    }

    static void waitFor(String what, BooleanSupplier condition) {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - until > 0) {
                throw new AssertionError(what + " did not come about in " + PATIENCE_SECONDS + " s");
            }
            pause(2);
        }
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    void start() {
        try {
            process = new ProcessBuilder(command).directory(folder.toFile()).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        CountDownLatch ready = new CountDownLatch(1);
        BufferedReader lines = process.errorReader();
        Thread reader = new Thread(() -> {
            try {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    log.append(line).append('\n');
                    if (line.startsWith("rationd: ready")) {
                        ready.countDown();
                    }
                }
            } catch (IOException closed) {
                // it has been killed
            }
            ready.countDown();
        });
        reader.setDaemon(true);
        reader.start();
        try {
            if (!ready.await(PATIENCE_SECONDS, TimeUnit.SECONDS) || !log.toString().contains("rationd: ready")) {
                kill();
                throw new IllegalStateException("rationd did not start:\n" + log);
            }
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    boolean isRunning() {
        return process != null;
    }

    private int awaitEnd() {
        try {
            if (!process.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
            int status = process.exitValue();
            process = null;
            return status;
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    /** By SIGKILL, as a crash would end it. */
    void kill() {
        process.destroyForcibly();
        awaitEnd();
    }

    /** Until no thread of it runs any more. */
    void freeze() {
        signal("STOP");
        waitFor("all threads to stop", this::isStopped);
    }

    void thaw() {
        signal("CONT");
    }

    private void signal(String name) {
        try {
            new ProcessBuilder("sh", "-c", "kill -" + name + " " + process.pid()).start().waitFor();
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private boolean isStopped() {
        try (Stream<Path> tasks = Files.list(Path.of("/proc", Long.toString(process.pid()), "task"))) {
            return tasks.allMatch(task -> {
                try {
                    return Files.readString(task.resolve("stat")).replaceFirst("^.*\\) ", "").startsWith("T");
                } catch (IOException ended) {
                    return true;
                }
            });
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** By SIGTERM; the end must be a clean one. */
    @Override
    public void close() {
        if (process != null) {
            thaw();
            process.destroy();
            int status = awaitEnd();
            if (status != 0) {
                throw new AssertionError("exit status " + status + ":\n" + log);
            }
        }
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
            Files.delete(folder);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
