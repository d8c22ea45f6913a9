// SPDX-License-Identifier: Apache-2.0
// The client: its settings, its operations, and what becomes of a request.

package io.github.ration.client;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;

/**
 * Asks rationd. Threads of any kind share one client. No call lasts longer than the deadline, and none throws but
 * {@link IllegalArgumentException}, for mistakes of the program; if rationd is slow, hung or gone, the policy decides.
 *
 * <p>A thread that is interrupted gets an answer by policy at once, and keeps its interrupt.
 */
public final class RationClient implements AutoCloseable {
    private static final Logger LOG = System.getLogger(RationClient.class.getName());
    private static final int MOST_EVENTS = 1000; // that the callback has not taken yet
    private static final String RELEASE = "RATION.RELEASE";
    private static final String REFUND = "RATION.REFUND";

    private final long deadline; // nanoseconds
    private final Policy policy;
    private final List<String> localKey;
    private final BiConsumer<String, String> onEvent;
    private final ThreadPoolExecutor teller = new ThreadPoolExecutor(0, 1, 1, TimeUnit.SECONDS, new ArrayBlockingQueue<>(MOST_EVENTS),
            RationClient::newTeller, new ThreadPoolExecutor.DiscardPolicy());
    private final Breaker breaker;
    private final List<Connection> pool;
    private final AtomicLong lines = new AtomicLong();

    private RationClient(Builder settings) {
        deadline = Command.within("deadline", settings.deadline, Duration.ofSeconds(60)).toNanos();
        if (settings.connections < 1 || settings.failures < 1 || settings.silence < 1) {
            throw new IllegalArgumentException("connections, failures and silence must be 1 or more, found " + settings.connections
                    + ", " + settings.failures + " and " + settings.silence);
        }
        long first = Command.within("probeFirst", settings.probeFirst, Duration.ofHours(1)).toNanos();
        long most = Command.within("probeMost", settings.probeMost, Duration.ofHours(1)).toNanos();
        if (most < first) {
            throw new IllegalArgumentException("probeMost must not be less than probeFirst, " + settings.probeFirst + ", found "
                    + settings.probeMost);
        }
        Address address = new Address(settings.url, settings.token, settings.tls);
        policy = new Policy(settings.policy);
        localKey = settings.localKey;
        onEvent = settings.onEvent != null ? settings.onEvent : new Warnings();
        breaker = new Breaker(settings.failures, new Jitter(first, most), this::report);
        pool = Stream.generate(() -> new Connection(address, new Jitter(first, most), deadline, settings.silence * deadline, this::report))
                .limit(settings.connections).toList();
    }

    public static Builder builder() {
        return new Builder();
    }

    // --- operations -----------------------------------------------------------------------------

    /** By the rules, at a cost of 1. Names are in lower case; values are texts, bytes, numbers or booleans. */
    public Decision check(Map<String, ?> attributes) {
        return check(attributes, 1, null, false);
    }

    /** By the rules. At a cost of 0 it only looks. */
    public Decision check(Map<String, ?> attributes, long cost) {
        return check(attributes, cost, null, false);
    }

    /**
     * By the rules. Values are texts, bytes, numbers or booleans; null leaves the attribute out. {@code wait}: so long the request
     * may stand in line; null: it does not. {@code lease}: takes places, too, and then {@link #release} must follow.
     */
    public Decision check(Map<String, ?> attributes, long cost, Duration wait, boolean lease) {
        Command command = new Command("RATION.CHECK").attributes(attributes);
        if (cost != 1) {
            command.add("COST").number("cost", cost, lease ? 1 : 0);
        }
        if (lease) {
            command.add("LEASE");
        }
        command.add("FULL");
        long line = wait == null || wait.isZero() ? 0 : lines.incrementAndGet();
        if (line == 0) {
            command.add("WAIT", "return");
        } else {
            command.add("LINE", Long.toString(line)).waiting(wait);
        }
        return decide(command, () -> keyOf(attributes), cost, line, RELEASE);
    }

    /** By a limit that comes along, such as "100 per minute", at a cost of 1. */
    public Decision take(String key, String limit) {
        return take(key, limit, 1);
    }

    /** By a limit that comes along, such as "100 per minute". */
    public Decision take(String key, String limit, long cost) {
        Command command = new Command("RATION.TAKE").key(key).limit(limit);
        if (cost != 1) {
            command.number("cost", cost, 0);
        }
        return decide(command, () -> key, cost, 0, RELEASE);
    }

    /** One place of a limit such as "20 concurrent". {@link #release} frees it. */
    public Decision acquire(String key, String limit) {
        return acquire(key, limit, 1, null);
    }

    /** Places of a limit such as "20 concurrent", for {@code seconds} (null: as rationd has it). {@link #release} frees them. */
    public Decision acquire(String key, String limit, long cost, Duration seconds) {
        Command command = new Command("RATION.ACQUIRE").keyButRules(key).limit(limit).add("COST").number("cost", cost, 1);
        return decide(command.lasting(seconds).add("WAIT", "return"), () -> key, cost, 0, RELEASE);
    }

    /** One place, by the rules. {@link #release} frees it. */
    public Decision acquire(Map<String, ?> attributes) {
        return acquire(attributes, 1, null);
    }

    /** Places, by the rules. */
    public Decision acquire(Map<String, ?> attributes, long cost, Duration seconds) {
        Command command = new Command("RATION.ACQUIRE", "RULES").attributes(attributes).add("COST").number("cost", cost, 1);
        return decide(command.lasting(seconds).add("WAIT", "return"), () -> keyOf(attributes), cost, 0, RELEASE);
    }

    /** Charges now; {@link #commit} or {@link #refund} settles. */
    public Decision reserve(String key, String limit, long cost) {
        return reserve(key, limit, cost, null);
    }

    /** Charges now; {@link #commit} or {@link #refund} settles, within {@code seconds}. */
    public Decision reserve(String key, String limit, long cost, Duration seconds) {
        Command command = new Command("RATION.RESERVE").keyButRules(key).limit(limit).number("cost", cost, 1);
        return decide(command.lasting(seconds).add("WAIT", "return"), () -> key, cost, 0, REFUND);
    }

    /** Charges now, by the rules; {@link #commit} or {@link #refund} settles. */
    public Decision reserve(Map<String, ?> attributes, long cost) {
        return reserve(attributes, cost, null);
    }

    /** Charges now, by the rules. */
    public Decision reserve(Map<String, ?> attributes, long cost, Duration seconds) {
        Command command = new Command("RATION.RESERVE", "RULES").attributes(attributes).add("COST").number("cost", cost, 1);
        return decide(command.lasting(seconds).add("WAIT", "return"), () -> keyOf(attributes), cost, 0, REFUND);
    }

    /** Frees places. As all that settle: whether the lease was alive; empty if nobody knows, as of the lease null. */
    public Optional<Boolean> release(String lease) {
        return settle(lease, new Command(RELEASE));
    }

    /** Keeps places from now on, as long as rationd has it. */
    public Optional<Boolean> renew(String lease) {
        return renew(lease, null);
    }

    /** Keeps places for so long from now on. */
    public Optional<Boolean> renew(String lease, Duration seconds) {
        return settle(lease, new Command("RATION.RENEW"), new Command().lasting(seconds));
    }

    /** Keeps all of a reservation. */
    public Optional<Boolean> commit(String lease) {
        return settle(lease, new Command("RATION.COMMIT"));
    }

    /** Keeps so many units of a reservation, and gives back the rest. */
    public Optional<Boolean> commit(String lease, long cost) {
        return settle(lease, new Command("RATION.COMMIT"), new Command().number("cost", cost, 0));
    }

    /** Gives back all of a reservation. */
    public Optional<Boolean> refund(String lease) {
        return settle(lease, new Command(REFUND));
    }

    /** How the request of a decision with a {@link Decision#charge charge} has ended: whether that was charged. */
    public Optional<Boolean> report(String charge, int status) {
        return settle(charge, new Command("RATION.CHARGE"), new Command().number("status", status, 0));
    }

    /** Refuses a key for so long, in whole seconds. What is left of the pause; empty if nobody knows. */
    public Optional<Duration> pause(String key, Duration length) {
        if (length == null || length.isNegative()) {
            throw new IllegalArgumentException("length must be a time that is not negative, found " + length);
        }
        return pause(key, Long.toString(Math.max(1, length.toSeconds() + (length.getNano() > 0 ? 1 : 0))));
    }

    /** Refuses a key for a Retry-After as it was received; null does nothing. What is left of the pause; empty if nobody knows. */
    public Optional<Duration> pause(String key, String retryAfter) {
        Command command = new Command("RATION.PAUSE").keyButRules(key);
        if (retryAfter == null || retryAfter.isEmpty()) {
            return Optional.empty();
        }
        return ask(new Request<>(command.text(retryAfter).bytes(), RationClient::timeLeft, why -> Optional.empty(), 0, RELEASE));
    }

    // --- a request ------------------------------------------------------------------------------

    private Decision decide(Command command, Supplier<String> key, long cost, long line, String undo) {
        return ask(new Request<>(command.bytes(), Decision::read, why -> policy.decide(key.get(), cost, why), line, undo));
    }

    private Optional<Boolean> settle(String ticket, Command command, Command... rest) {
        if (ticket == null || ticket.isEmpty()) {
            return Optional.empty();
        }
        command.text(ticket);
        for (Command more : rest) {
            command.add(more);
        }
        return ask(new Request<>(command.bytes(), RationClient::done, why -> Optional.empty(), 0, RELEASE));
    }

    @SuppressWarnings("unchecked")
    private <T> T ask(Request<T> request) {
        long ends = System.nanoTime() + deadline;
        if (!breaker.admits()) {
            return request.instead().apply("the breaker is open");
        }
        try {
            Object answer = choose().ask(request, ends);
            breaker.succeeded();
            if (answer instanceof Replies.Failure failure) { // it answers, if not what was hoped for
                report("error_reply", failure.text());
                return request.instead().apply("rationd has answered: " + failure.text());
            }
            return (T) answer;
        } catch (Unavailable unavailable) {
            if (unavailable.failure) {
                breaker.failed(unavailable.getMessage());
            }
            return request.instead().apply(unavailable.getMessage());
        }
    }

    /** The one that owes fewest replies, of those that are there. */
    private Connection choose() {
        Connection best = null;
        for (Connection connection : pool) {
            if (!connection.isConnected()) {
                connection.start(breaker.isOpen());
            } else if (best == null || connection.owes() < best.owes()) {
                best = connection;
            }
        }
        return best != null ? best : pool.get(0);
    }

    /** The key of the local limit. */
    private String keyOf(Map<String, ?> attributes) {
        for (String name : localKey) {
            Object value = attributes.get(name);
            if (value != null) {
                return name + "=" + (value instanceof byte[] bytes ? new String(bytes, StandardCharsets.ISO_8859_1) : value);
            }
        }
        return "";
    }

    static Optional<Boolean> done(Object reply) throws BadAnswer {
        if (!(reply instanceof Long number) || number != 0 && number != 1) {
            throw new BadAnswer("neither 0 nor 1: " + BadAnswer.found(reply));
        }
        return Optional.of(number == 1);
    }

    private static Optional<Duration> timeLeft(Object reply) throws BadAnswer {
        if (!(reply instanceof Long ms)) {
            throw new BadAnswer("no milliseconds: " + BadAnswer.found(reply));
        }
        return Optional.of(Duration.ofMillis(ms));
    }

    // --- events ---------------------------------------------------------------------------------

    /** Never waits. What the callback throws is logged: it must not reach a request. */
    private void report(String name, String detail) {
        teller.execute(() -> tell(name, detail));
    }

    private void tell(String name, String detail) {
        try {
            onEvent.accept(name, detail);
        } catch (RuntimeException error) {
            LOG.log(Level.WARNING, "the callback onEvent failed for " + name, error);
        }
    }

    private static Thread newTeller(Runnable work) {
        Thread thread = new Thread(null, work, "ration-events", 0, false);
        thread.setDaemon(true);
        return thread;
    }

    /** Closes its connections. Calls that are under way, and later ones, are answered by policy. */
    @Override
    public void close() {
        pool.forEach(Connection::close);
        teller.shutdown();
    }

    // --- settings -------------------------------------------------------------------------------

    /** The settings of a client. What is wrong with them, {@link #build} says. */
    public static final class Builder {
        private String url = "ration://127.0.0.1:6380";
        private String policy = "allow";
        private Duration deadline = Duration.ofMillis(50);
        private int connections = 2;
        private String token;
        private SSLContext tls;
        private int failures = 5;
        private int silence = 4;
        private Duration probeFirst = Duration.ofMillis(100);
        private Duration probeMost = Duration.ofSeconds(2);
        private List<String> localKey = List.of("user", "api_key", "ip");
        private BiConsumer<String, String> onEvent;

        private Builder() {}

        /** {@code ration://[[name]:token@]host[:port]}, {@code rations://} by TLS, {@code unix:/path}. */
        public Builder url(String value) {
            url = value;
            return this;
        }

        /** What decides without rationd: "allow", "refuse", or a local limit such as "100 per second". */
        public Builder policy(String value) {
            policy = value;
            return this;
        }

        /** Of each call, from the call on, connecting and queueing included. */
        public Builder deadline(Duration value) {
            deadline = value;
            return this;
        }

        /** At most, each shared by many requests. */
        public Builder connections(int value) {
            connections = value;
            return this;
        }

        /** For operations that need rights. */
        public Builder token(String value) {
            token = value;
            return this;
        }

        /** For {@code rations://}, in the place of the default context. */
        public Builder tls(SSLContext value) {
            tls = value;
            return this;
        }

        /** Failures in a row that open the breaker. */
        public Builder failures(int value) {
            failures = value;
            return this;
        }

        /** Deadlines of silence after which a connection that owes replies is closed. */
        public Builder silence(int value) {
            silence = value;
            return this;
        }

        /** The least time between probes, and between attempts to connect. */
        public Builder probeFirst(Duration value) {
            probeFirst = value;
            return this;
        }

        /** The longest time between probes, and between attempts to connect. */
        public Builder probeMost(Duration value) {
            probeMost = value;
            return this;
        }

        /** The first attribute of these that is there is the key of the local limit. */
        public Builder localKey(String... names) {
            localKey = List.of(names);
            return this;
        }

        /** Gets the name and a detail of each event, one after the other, in a thread of its own. */
        public Builder onEvent(BiConsumer<String, String> callback) {
            onEvent = callback;
            return this;
        }

        /** Connects to nothing yet. */
        public RationClient build() {
            return new RationClient(this);
        }
    }
}
