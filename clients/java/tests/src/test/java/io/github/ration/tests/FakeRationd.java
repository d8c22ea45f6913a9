// SPDX-License-Identifier: Apache-2.0
// A server whose bytes are given: `fake` of clients/scenarios.yaml. It keeps the commands that it gets.

package io.github.ration.tests;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

final class FakeRationd implements AutoCloseable {
    private record Answer(byte[] bytes, boolean torn, boolean close) {}

    private final Deque<Answer> answers = new ArrayDeque<>();
    private final Answer then;
    private final byte[] greeting;
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
    final List<String> seen = new CopyOnWriteArrayList<>(); // the commands but HELLO
    private final List<Socket> open = new CopyOnWriteArrayList<>();
    final String url = "ration://127.0.0.1:" + listener.getLocalPort();

    FakeRationd(Map<String, ?> fake, Map<String, String> names) throws IOException {
        for (Object item : (List<?>) fake.get("answers")) {
            Map<?, ?> answer = item instanceof Map<?, ?> map ? map : Map.of("send", item);
            answers.add(new Answer(expand((String) answer.get("send"), names), answer.containsKey("torn"), answer.containsKey("close")));
        }
        String hello = (String) fake.get("greeting");
        String rest = (String) fake.get("then");
        greeting = expand(hello == null ? "<hello>" : hello, names);
        then = new Answer(expand(rest == null ? "" : rest, names), false, false);
        inBackground(this::accept);
    }

    private static byte[] expand(String text, Map<String, String> names) {
        Matcher matcher = Pattern.compile("<([a-z-]+)>").matcher(text);
        return matcher.replaceAll(match -> Matcher.quoteReplacement(names.get(match.group(1)))).getBytes(StandardCharsets.ISO_8859_1);
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void inBackground(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException closed) {
                // by the client, or by close()
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() throws IOException {
        while (true) {
            Socket connection = listener.accept();
            connection.setTcpNoDelay(true);
            open.add(connection);
            inBackground(() -> serve(connection));
        }
    }

    private void serve(Socket connection) throws IOException {
        try (connection) {
            DataInputStream in = new DataInputStream(connection.getInputStream());
            OutputStream out = connection.getOutputStream();
            while (true) {
                List<String> command = readCommand(in);
                if (command.get(0).equals("HELLO")) {
                    out.write(greeting);
                    continue;
                }
                seen.add(String.join(" ", command));
                Answer answer;
                synchronized (answers) {
                    answer = answers.isEmpty() ? then : answers.remove();
                }
                int step = answer.torn ? 1 : Math.max(1, answer.bytes.length);
                for (int at = 0; at < answer.bytes.length; at += step) {
                    out.write(answer.bytes, at, step);
                }
                if (answer.close) {
                    return;
                }
            }
        }
    }

    private static List<String> readCommand(DataInputStream in) throws IOException {
        List<String> words = new ArrayList<>();
        for (int count = readNumber(in); count > 0; count--) {
            byte[] word = in.readNBytes(readNumber(in) + 2);
            words.add(new String(word, 0, word.length - 2, StandardCharsets.ISO_8859_1));
        }
        return words;
    }

    private static int readNumber(DataInputStream in) throws IOException {
        int number = 0;
        for (byte c = in.readByte(); c != '\n'; c = in.readByte()) {
            number = c >= '0' && c <= '9' ? 10 * number + c - '0' : number;
        }
        return number;
    }

    @Override
    public void close() throws IOException {
        listener.close();
        for (Socket connection : open) {
            connection.close();
        }
    }
}
