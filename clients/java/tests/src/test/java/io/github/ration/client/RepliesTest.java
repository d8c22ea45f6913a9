// SPDX-License-Identifier: Apache-2.0
// The parser of replies by itself: torn, hostile and random bytes.

package io.github.ration.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class RepliesTest {
    private static final String EVERYTHING = "*3\r\n$1\r\na\r\n$0\r\n\r\n$4\r\nx\r\ny\r\n%1\r\n+k\r\n,1.5\r\n>1\r\n:7\r\n#f\r\n_\r\n-ERR no\r\n"
            + "$-1\r\n*-1\r\n:-12\r\n*0\r\n%0\r\n,18\r\n,-2.5e3\r\n*2\r\n*1\r\n%1\r\n$1\r\nn\r\n*0\r\n#t\r\n";

    private static List<Object> read(byte[] data, int step) throws BadAnswer {
        Replies replies = new Replies();
        List<Object> found = new ArrayList<>();
        for (int at = 0; at < data.length; at += step) {
            replies.add(ByteBuffer.wrap(data, at, Math.min(step, data.length - at)));
            for (Object reply = replies.next(); reply != Replies.NONE; reply = replies.next()) {
                found.add(reply);
            }
        }
        return found;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 7, 1000})
    void repliesComeInAnyPieces(int step) throws BadAnswer {
        List<Object> expected = Arrays.asList(List.of("a", "", "x\r\ny"), Map.of("k", 1.5), new Replies.Push(List.of(7L)), false, null,
                new Replies.Failure("ERR no"), null, null, -12L, List.of(), Map.of(), 18L, -2500.0,
                List.of(List.of(Map.of("n", List.of())), true));
        assertEquals(expected, read(bytes(EVERYTHING), step));
    }

    static List<String> nonsense() {
        return List.of("HTTP/1.1\r\n", "x", "\0\0\0\0", "$3\r\nabcd\r\n", "*5000\r\n", ":1_0\r\n", ":\r\n", ":99999999999999999999\r\n", ",inf\r\n",
                ",nan\r\n", ",1e999\r\n", ",0x1p3\r\n", ",1d\r\n", "#x\r\n", "_x\r\n", "%1\r\n:1\r\n:2\r\n", "%1\r\n_\r\n:2\r\n", "*1\r\n".repeat(9) + ":1\r\n",
                "$2000000\r\n", "$+5\r\n", "$-7\r\n", "$\r\n", "*-2\r\n", "*99999999999\r\n", "+" + "x".repeat(1_200_000),
                "*4096\r\n" + ("$1000\r\n" + "x".repeat(1000) + "\r\n").repeat(1100));
    }

    @ParameterizedTest
    @MethodSource("nonsense")
    void nonsenseIsABadAnswer(String data) {
        assertThrows(BadAnswer.class, () -> read(bytes(data), 65536));
        assertThrows(BadAnswer.class, () -> read(bytes(data), data.length() > 1000 ? 997 : 1));
    }

    @Test
    void eightLevelsAreRead() throws BadAnswer {
        assertEquals(1, read(bytes("*1\r\n".repeat(8) + ":1\r\n"), 3).size());
    }

    /** Whatever comes: replies, or a bad answer; and the same however it is cut. */
    @Test
    void randomBytesAreRepliesOrABadAnswer() {
        Random random = new Random(20261119);
        String alphabet = "$:,#*%>_+-0123456789tfe.\r\n\r\n\r\nab";
        int bad = 0;
        for (int round = 0; round < 20_000; round++) {
            byte[] data;
            if (round % 2 == 0) {
                data = new byte[random.nextInt(60)];
                for (int i = 0; i < data.length; i++) {
                    data[i] = (byte) (random.nextInt(50) == 0 ? random.nextInt(256) : alphabet.charAt(random.nextInt(alphabet.length())));
                }
            } else {
                data = bytes(EVERYTHING);
                for (int i = random.nextInt(3); i >= 0; i--) {
                    data[random.nextInt(data.length)] = (byte) alphabet.charAt(random.nextInt(alphabet.length()));
                }
            }
            String whole = outcome(data, data.length + 1);
            assertEquals(whole, outcome(data, 1 + random.nextInt(5)), () -> new String(data, StandardCharsets.ISO_8859_1));
            bad += whole.equals("bad") ? 1 : 0;
        }
        assertTrue(bad > 1000 && bad < 19_000, "both must happen: " + bad);
    }

    private static String outcome(byte[] data, int step) {
        try {
            return read(data, step).toString();
        } catch (BadAnswer error) {
            return "bad";
        }
    }

    /** Decisions that are nearly right are read, or are a bad answer; what has been read can be told to an HTTP client. */
    @Test
    void randomDecisionsAreDecisionsOrABadAnswer() throws BadAnswer {
        Random random = new Random(7);
        List<String> numbers = List.of("_", ":0", ":-5", ":9223372036854775807", ",1.5", ",1e99", ",-1e9");
        String limit = "*1\r\n%6\r\n+rule\r\n_\r\n+limit\r\n:5\r\n+remaining\r\n_\r\n+reset_after\r\n,-1e9\r\n+amount\r\n:0\r\n+period\r\n,7.5";
        Map<String, List<String>> members = new LinkedHashMap<>();
        List.of("limit", "remaining", "reset_after", "retry_after", "delay").forEach(name -> members.put(name, numbers));
        List.of("allowed", "soft", "banned", "paused", "retryafter").forEach(name -> members.put(name, List.of("#t", "#f")));
        List.of("level", "status", "decided_by").forEach(name -> members.put(name, List.of(":0", ":-1", ":1", ":420", ":9223372036854775807")));
        List.of("headers", "by", "message", "rule").forEach(name -> members.put(name, List.of("$1\r\na", "+none", "+x", "+deny", "$2\r\n\r\n")));
        members.put("limits", List.of("*0", limit, limit.replace("+amount", "+shadow").replace(":0", "#t"), "*1\r\n%0", "*1\r\n:1"));
        List<String> all = members.values().stream().flatMap(List::stream).distinct().toList();
        int read = 0;
        for (int round = 0; round < 20_000; round++) {
            StringBuilder text = new StringBuilder("%" + members.size() + "\r\n");
            members.forEach((name, values) -> {
                List<String> from = random.nextInt(50) == 0 ? all : values;
                text.append("+").append(random.nextInt(100) == 0 ? "other" : name).append("\r\n").append(from.get(random.nextInt(from.size()))).append("\r\n");
            });
            Object reply = read(bytes(text.toString()), 1 << 20).get(0);
            try {
                Decision decision = Decision.read(reply);
                read++;
                assertTrue(decision.status() >= 200 && decision.status() <= 599);
                decision.headers().values().forEach(value -> assertTrue(value.chars().allMatch(c -> c >= ' ' && c <= '~'), value));
                assertTrue(decision.body("application/problem+json").content().length > 0 && decision.message() != null);
                assertTrue(decision.limits().size() <= 1 && decision.toString() != null);
            } catch (BadAnswer expected) {
                assertTrue(expected.getMessage().length() < 200);
            }
        }
        assertTrue(read > 100 && read < 19_000, "both must happen: " + read);
    }
}
