// SPDX-License-Identifier: Apache-2.0
// Arguments to the bytes of a command. What comes from outside is cut, never refused; mistakes of the program are errors at once.

package io.github.ration.client;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;

final class Command {
    private static final int MOST_VALUE = 8192; // bytes: longer keys and values are cut
    private static final int MOST_ATTRIBUTES = 128;
    private static final int MOST_TOTAL = 200_000; // bytes of all names and values
    private static final Duration LEAST = Duration.ofMillis(1);
    private static final Duration MOST_WAIT = Duration.ofSeconds(60);
    private static final Duration MOST_SECONDS = Duration.ofDays(1);

    private final List<byte[]> words = new ArrayList<>();

    Command(String... words) {
        add(words);
    }

    Command add(String... texts) {
        for (String text : texts) {
            words.add(text.getBytes(StandardCharsets.UTF_8));
        }
        return this;
    }

    Command add(Command rest) {
        words.addAll(rest.words);
        return this;
    }

    byte[] bytes() {
        ByteArrayOutputStream out = new ByteArrayOutputStream(256);
        out.writeBytes(("*" + words.size() + "\r\n").getBytes(StandardCharsets.US_ASCII));
        for (byte[] word : words) {
            out.writeBytes(("$" + word.length + "\r\n").getBytes(StandardCharsets.US_ASCII));
            out.writeBytes(word);
            out.write('\r');
            out.write('\n');
        }
        return out.toByteArray();
    }

    Command key(String key) {
        if (key == null) {
            throw new IllegalArgumentException("key must be a text, found null");
        }
        words.add(cut(key.getBytes(StandardCharsets.UTF_8), MOST_VALUE));
        return this;
    }

    /** Where the word RULES would mean attributes, a key of that name gets a space. */
    Command keyButRules(String key) {
        return key("RULES".equals(key) ? "RULES " : key);
    }

    Command limit(String limit) {
        if (limit == null || limit.isEmpty()) {
            throw new IllegalArgumentException("limit must be a text such as \"100 per minute\", found " + limit);
        }
        return text(limit);
    }

    Command text(String text) {
        words.add(cut(text.getBytes(StandardCharsets.UTF_8), MOST_VALUE));
        return this;
    }

    Command number(String name, long value, long least) {
        if (value < least) {
            throw new IllegalArgumentException(name + " must be a whole number from " + least + ", found " + value);
        }
        return add(Long.toString(value));
    }

    /** At most so long in line. */
    Command waiting(Duration wait) {
        return add("WAIT", Long.toString(within("wait", wait, MOST_WAIT).toMillis()));
    }

    /** How long a lease lasts; null: as rationd has it. */
    Command lasting(Duration seconds) {
        if (seconds == null) {
            return this;
        }
        long ms = within("seconds", seconds, MOST_SECONDS).toMillis();
        return add("FOR", String.format(Locale.ROOT, "%d.%03d", ms / 1000, ms % 1000));
    }

    static Duration within(String name, Duration value, Duration most) {
        if (value == null || value.compareTo(LEAST) < 0 || value.compareTo(most) > 0) {
            throw new IllegalArgumentException(name + " must be from 0.001 to " + most.toSeconds() + " s, found " + value);
        }
        return value;
    }

    Command attributes(Map<String, ?> attributes) {
        if (attributes == null) {
            throw new IllegalArgumentException("attributes must be a map such as Map.of(\"ip\", \"192.0.2.7\"), found null");
        }
        int first = words.size();
        int total = 0;
        for (Map.Entry<String, ?> attribute : attributes.entrySet()) {
            if (attribute.getValue() != null) {
                words.add(name(attribute.getKey()));
                words.add(value(attribute.getKey(), attribute.getValue()));
            }
        }
        int count = words.size() - first;
        if (attributes.isEmpty() || count > 2 * MOST_ATTRIBUTES) {
            throw new IllegalArgumentException("a request has 1 to " + MOST_ATTRIBUTES + " attributes, found " + count / 2);
        }
        List<byte[]> added = words.subList(first, words.size());
        for (byte[] word : added) {
            total += word.length;
        }
        if (total > MOST_TOTAL) {
            added.replaceAll(word -> cut(word, MOST_TOTAL / count));
        }
        return this;
    }

    private static byte[] name(String name) {
        if (name == null || name.isEmpty() || !name.equals(name.toLowerCase(Locale.ROOT))) {
            throw new IllegalArgumentException("names of attributes are texts in lower case, found " + name);
        }
        return name.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] value(String name, Object value) {
        if (value instanceof byte[] bytes) {
            return cut(bytes, MOST_VALUE);
        }
        if (!(value instanceof CharSequence || value instanceof Number || value instanceof Boolean)) {
            throw new IllegalArgumentException(
                    "attribute " + name + " must be a text, bytes, a number or a boolean, found " + value.getClass().getName());
        }
        return cut(value.toString().getBytes(StandardCharsets.UTF_8), MOST_VALUE);
    }

    private static byte[] cut(byte[] bytes, int most) {
        return bytes.length > most ? Arrays.copyOf(bytes, most) : bytes;
    }
}
