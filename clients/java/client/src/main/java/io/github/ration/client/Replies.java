// SPDX-License-Identifier: Apache-2.0
// The bytes of RESP3: replies out of bytes that come in any pieces. No I/O, no knowledge of limits.

package io.github.ration.client;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/** Gives texts as String, numbers as Long or Double, booleans, null, List, Map, Failure and Push. */
final class Replies {
    /** Nothing yet. */
    static final Object NONE = new Object();

    private static final int MOST_BYTES = 1 << 20; // of one reply
    private static final int MOST_ITEMS = 4096; // of one array or map
    private static final int MOST_DEPTH = 8;
    private static final Pattern DOUBLE = Pattern.compile("[+-]?\\d{1,20}(\\.\\d{1,20})?([eE][+-]?\\d{1,2})?");

    /** A reply that is an error. */
    record Failure(String text) {}

    /** What comes without being asked for. */
    record Push(List<Object> items) {}

    private byte[] data = new byte[4096];
    private int at; // data[at] to data[end - 1] are still to be read
    private int end;
    private int scanned; // so many bytes from `at` on have no end of a line in them
    private int size; // of the reply that is being read, so far
    private final Deque<Aggregate> open = new ArrayDeque<>();

    void add(ByteBuffer more) {
        int count = more.remaining();
        if (data.length - end < count) {
            int needed = end - at + count;
            byte[] room = needed <= data.length ? data : new byte[2 * needed];
            System.arraycopy(data, at, room, 0, end - at);
            data = room;
            end -= at;
            at = 0;
        }
        more.get(data, end, count);
        end += count;
    }

    /** Whether a part of a reply has arrived. */
    boolean isTorn() {
        return at < end || !open.isEmpty();
    }

    /** The next reply, or NONE. */
    Object next() throws BadAnswer {
        while (true) {
            int from = at;
            Object item = element();
            size += at - from;
            if (size + (item == NONE ? end - at : 0) > MOST_BYTES) {
                throw new BadAnswer("a reply of more than " + MOST_BYTES + " bytes");
            }
            if (item == NONE) {
                return NONE;
            }
            if (item instanceof Aggregate begun) {
                if (open.size() == MOST_DEPTH) {
                    throw new BadAnswer("a reply of more than " + MOST_DEPTH + " levels");
                }
                if (begun.left > 0) {
                    open.push(begun);
                    continue;
                }
                item = begun.value();
            }
            while (!open.isEmpty() && open.peek().completes(item)) {
                item = open.pop().value();
            }
            if (open.isEmpty()) {
                size = 0;
                return item;
            }
        }
    }

    /** A scalar, the beginning of an aggregate, or NONE. */
    private Object element() throws BadAnswer {
        if (at == end) {
            return NONE;
        }
        char kind = (char) data[at];
        if ("$:#,*%>_+-".indexOf(kind) < 0) {
            throw BadAnswer.notResp3(new String(data, at, end - at, StandardCharsets.UTF_8));
        }
        int stop = endOfLine();
        if (stop < 0) {
            return NONE;
        }
        String line = new String(data, at + 1, stop - at - 1, StandardCharsets.UTF_8);
        if (kind == '$') {
            return text(length(line, MOST_BYTES), stop + 2);
        }
        moveTo(stop + 2);
        return switch (kind) {
            case ':' -> integer(line);
            case ',' -> number(line);
            case '*', '%', '>' -> aggregate(kind, length(line, MOST_ITEMS));
            case '+' -> line;
            case '-' -> new Failure(line);
            default -> constant(kind + line);
        };
    }

    private int endOfLine() {
        for (int i = at + scanned; i + 1 < end; i++) {
            if (data[i] == '\r' && data[i + 1] == '\n') {
                return i;
            }
        }
        scanned = end - at - 1;
        return -1;
    }

    private void moveTo(int place) {
        at = place;
        scanned = 0;
    }

    private Object text(int length, int from) throws BadAnswer {
        if (length >= 0 && end - from < length + 2) {
            return NONE;
        }
        if (length < 0) {
            moveTo(from);
            return null;
        }
        if (data[from + length] != '\r' || data[from + length + 1] != '\n') {
            throw new BadAnswer("a text that is not as long as it says");
        }
        moveTo(from + length + 2);
        return new String(data, from, length, StandardCharsets.UTF_8);
    }

    /** -1 stands for null. */
    private static int length(String line, int most) throws BadAnswer {
        if (line.equals("-1")) {
            return -1;
        }
        if (!isDigits(line) || line.length() > 9 || Integer.parseInt(line) > most) {
            throw new BadAnswer("no length: " + BadAnswer.found(line) + "; it would be 0 to " + most);
        }
        return Integer.parseInt(line);
    }

    private static Long integer(String line) throws BadAnswer {
        try {
            return Long.valueOf(line);
        } catch (NumberFormatException error) {
            throw new BadAnswer("no number: " + BadAnswer.found(line));
        }
    }

    private static Number number(String line) throws BadAnswer {
        if (isDigits(line)) {
            return integer(line);
        }
        if (!DOUBLE.matcher(line).matches()) {
            throw new BadAnswer("no number: " + BadAnswer.found(line));
        }
        return Double.valueOf(line);
    }

    private static boolean isDigits(String line) {
        return !line.isEmpty() && line.chars().allMatch(c -> c >= '0' && c <= '9');
    }

    private static Object constant(String line) throws BadAnswer {
        return switch (line) {
            case "#t" -> true;
            case "#f" -> false;
            case "_" -> null;
            default -> throw BadAnswer.notResp3(line);
        };
    }

    private static Aggregate aggregate(char kind, int count) {
        return count < 0 ? null : new Aggregate(kind, count);
    }

    /** A list, map or push whose items are still to come. */
    private static final class Aggregate {
        private final char kind;
        private final List<Object> items = new ArrayList<>();
        private final Map<String, Object> members = new HashMap<>();
        private String name;
        private int left;

        Aggregate(char kind, int count) {
            this.kind = kind;
            this.left = kind == '%' ? 2 * count : count;
        }

        /** Takes the next item; whether it was the last one. */
        boolean completes(Object item) throws BadAnswer {
            if (kind != '%') {
                items.add(item);
            } else if (left % 2 == 1) {
                members.put(name, item);
            } else if (item instanceof String text) {
                name = text;
            } else {
                throw new BadAnswer("the name in a map is no text: " + BadAnswer.found(item));
            }
            return --left == 0;
        }

        Object value() {
            return switch (kind) {
                case '%' -> members;
                case '>' -> new Push(items);
                default -> items;
            };
        }
    }
}
