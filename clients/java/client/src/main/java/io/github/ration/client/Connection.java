// SPDX-License-Identifier: Apache-2.0
// One connection of the pool, shared by many threads, through all of its lives. Each life has a thread, which connects, reads
// replies, and ends with it. Callers send by themselves: sending never waits.

package io.github.ration.client;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Selector;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

final class Connection {
    private static final long STEP = TimeUnit.SECONDS.toNanos(1); // for connecting, and again for the greeting

    private static final long MOST_WAIT = 60_000; // milliseconds in line

    private final Address address;
    private final Jitter jitter;
    private final long deadline; // nanoseconds, as all times here
    private final long silence;
    private final BiConsumer<String, String> events; // never waits, so it may be told under the lock

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private volatile Wire wire; // null: not connected
    private Replies replies;
    private final Deque<Slot> owed = new ArrayDeque<>();
    private final Map<Long, Slot> lines = new HashMap<>(); // those that wait in line, by their ids
    private long heard;
    private boolean connecting;
    private boolean closed;
    private long nextAttempt = System.nanoTime();
    private String why = "not connected";

    Connection(Address address, Jitter jitter, long deadline, long silence, BiConsumer<String, String> events) {
        this.address = address;
        this.jitter = jitter;
        this.deadline = deadline;
        this.silence = silence;
        this.events = events;
    }

    boolean isConnected() {
        return wire != null;
    }

    /** Without the lock: a guess is good enough for choosing a connection. */
    int owes() {
        return owed.size();
    }

    // --- its life -------------------------------------------------------------------------------

    /** Connects in the background, unless that is under way or was tried a moment ago. */
    void start(boolean atOnce) {
        lock.lock();
        try {
            if (wire != null || connecting || closed || !atOnce && System.nanoTime() - nextAttempt < 0) {
                return;
            }
            connecting = true;
            Thread thread = new Thread(null, this::live, "ration-connection", 0, false);
            thread.setDaemon(true);
            thread.setContextClassLoader(null);
            try {
                thread.start();
            } catch (OutOfMemoryError error) { // no more threads
                failed("cannot start a thread: " + error.getMessage());
            }
        } finally {
            lock.unlock();
        }
    }

    private void live() {
        Wire mine = null;
        String end = "its thread has ended";
        try (Selector selector = Selector.open()) {
            mine = open(selector);
            while (wire == mine) {
                mine.await();
                Thread.interrupted(); // nobody has a reason to; await() would not wait any more
                receive(mine);
            }
        } catch (IOException | RuntimeException error) {
            end = error.getMessage() != null ? error.getMessage() : error.toString();
        } finally {
            ended(mine, end);
        }
    }

    /** `mine` is null if this life has not got a connection. Else an attempt that is under way by now is that of the next life. */
    private void ended(Wire mine, String reason) {
        lock.lock();
        try {
            if (mine == null) {
                failed("cannot connect to " + address + ": " + reason);
            } else if (wire == mine) {
                close(reason);
            }
        } finally {
            lock.unlock();
        }
    }

    private Wire open(Selector selector) throws IOException {
        Wire made = Wire.connect(address, address.targets(), selector, System.nanoTime() + STEP);
        Replies reader = new Replies();
        try {
            greet(made, reader, System.nanoTime() + STEP);
        } catch (IOException | RuntimeException error) {
            made.close();
            throw error;
        }
        lock.lock();
        try {
            connecting = false;
            changed.signalAll();
            if (closed) {
                made.close();
                return made;
            }
            replies = reader;
            heard = System.nanoTime();
            wire = made;
            jitter.reset();
            events.accept("connected", address.toString());
        } finally {
            lock.unlock();
        }
        return made;
    }

    private void greet(Wire made, Replies reader, long until) throws IOException {
        made.handshake(until);
        made.send(address.greeting());
        List<Object> greeted = new ArrayList<>();
        while (greeted.size() < address.repliesOfGreeting()) {
            ByteBuffer data = made.receive();
            reader.add(data);
            for (Object reply = reader.next(); reply != Replies.NONE; reply = reader.next()) {
                greeted.add(reply);
            }
            if (greeted.size() < address.repliesOfGreeting()) {
                made.await(until);
            }
        }
        if (greeted.size() > address.repliesOfGreeting() || reader.isTorn()) {
            throw new BadAnswer("more than a greeting");
        }
        address.checkGreeting(greeted);
    }

    /** Under the lock. */
    private void failed(String reason) {
        connecting = false;
        why = reason;
        nextAttempt = System.nanoTime() + jitter.next();
        events.accept("connect_failed", reason);
        changed.signalAll();
    }

    /** For ever. */
    void close() {
        lock.lock();
        try {
            closed = true;
            close("the client is closed");
            why = "the client is closed";
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** All that wait learn why. Under the lock. */
    private void close(String reason) {
        if (wire == null) {
            return;
        }
        wire.close();
        wire = null;
        why = reason;
        events.accept("disconnected", reason);
        List<Slot> lost = new ArrayList<>(owed);
        lost.addAll(lines.values());
        owed.clear();
        lines.clear();
        lost.forEach(slot -> slot.settle(new Unavailable(reason)));
    }

    private void receive(Wire mine) {
        lock.lock();
        try {
            if (wire == mine) {
                receive();
            }
        } finally {
            lock.unlock();
        }
    }

    // --- one request ----------------------------------------------------------------------------

    /** What the request's reading makes of the reply, or a Replies.Failure. */
    Object ask(Request<?> request, long ends) throws Unavailable {
        Slot slot = new Slot(request, ends, null);
        lock.lock();
        try {
            makeReady(ends);
            put(slot, request.command());
        } finally {
            lock.unlock();
        }
        while (!slot.done) {
            long rest = slot.ends - System.nanoTime();
            if (rest <= 0 || Thread.currentThread().isInterrupted()) {
                giveUp(slot);
            } else {
                LockSupport.parkNanos(this, rest);
            }
        }
        if (slot.answer instanceof Unavailable unavailable) {
            throw unavailable;
        }
        return slot.answer;
    }

    private void makeReady(long ends) throws Unavailable {
        if (wire != null && (owed.isEmpty() || isSilent())) {
            receive(); // the end, or what nobody has asked for; or the reason to think it silent was a pause of ours
            closeIfSilent();
        }
        start(false);
        while (wire == null) {
            long rest = ends - System.nanoTime();
            if (!connecting) {
                throw new Unavailable(why);
            }
            if (rest <= 0) {
                throw new Unavailable("connecting takes longer than the deadline");
            }
            try {
                changed.awaitNanos(rest);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new Unavailable("the thread was interrupted", false);
            }
        }
    }

    /** The deadline has passed, or the caller was interrupted. After a pause of ours (garbage collection) the reply may be there. */
    private void giveUp(Slot slot) {
        lock.lock();
        try {
            if (wire != null && !slot.done) {
                receive();
            }
            boolean interrupted = Thread.currentThread().isInterrupted();
            if (slot.done || !interrupted && slot.ends - System.nanoTime() > 0) {
                return;
            }
            slot.late = reply -> giveBack(slot, reply);
            if (lines.get(slot.request.line()) == slot) {
                leave(slot.request.line());
            }
            slot.settle(interrupted ? new Unavailable("the thread was interrupted", false) : new Unavailable("no answer within the deadline"));
            closeIfSilent();
        } finally {
            lock.unlock();
        }
    }

    /** Whether a reply is owed, and nothing has come for too long. */
    private boolean isSilent() {
        return !owed.isEmpty() && System.nanoTime() - Math.max(heard, owed.peek().sent) > silence;
    }

    private void closeIfSilent() {
        if (isSilent()) {
            close("silent for too long");
        }
    }

    private void put(Slot slot, byte[] command) {
        owed.add(slot);
        try {
            wire.send(command);
        } catch (IOException | RuntimeException error) {
            close("cannot send: " + error.getMessage());
        }
    }

    // --- replies, all under the lock --------------------------------------------------------------

    private void receive() {
        try {
            for (ByteBuffer data = wire.receive(); data.hasRemaining(); data = wire.receive()) {
                replies.add(data);
                for (Object reply = replies.next(); reply != Replies.NONE; reply = replies.next()) {
                    heard = System.nanoTime();
                    take(reply);
                    if (wire == null) {
                        return; // something could not be sent
                    }
                }
            }
        } catch (BadAnswer error) {
            events.accept("bad_answer", error.getMessage());
            close("bad answer: " + error.getMessage());
        } catch (IOException | RuntimeException error) {
            close("connection lost: " + error.getMessage());
        }
    }

    private void take(Object reply) throws BadAnswer {
        if (reply instanceof Replies.Push push) {
            takeTurn(push.items());
            return;
        }
        Slot slot = owed.peek();
        if (slot == null) {
            throw new BadAnswer("a reply that nobody has asked for");
        }
        long line = slot.request == null ? 0 : slot.request.line();
        if (line != 0 && reply instanceof List<?> wait && wait.size() == 3 && "WAIT".equals(wait.get(0))
                && Long.valueOf(line).equals(wait.get(1))) {
            if (!(wait.get(2) instanceof Long ms) || ms < 0 || ms > MOST_WAIT) {
                throw new BadAnswer("no time to wait: " + BadAnswer.found(wait));
            }
            owed.remove();
            lines.put(line, slot);
            slot.ends = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms) + deadline;
            if (slot.late != null) {
                leave(line);
            }
        } else {
            Object answer = read(slot, reply); // before it leaves the queue: a bad answer is the end of all that are in it
            owed.remove();
            settle(slot, reply, answer);
        }
    }

    private void takeTurn(List<Object> push) throws BadAnswer {
        boolean isTurn = push.size() == 3 && "ration.turn".equals(push.get(0));
        Slot slot = isTurn ? lines.get(push.get(1)) : null;
        if (slot == null) {
            throw new BadAnswer("a push that nobody waits for: " + BadAnswer.found(push));
        }
        Object answer = read(slot, push.get(2));
        lines.remove(slot.request.line());
        settle(slot, push.get(2), answer);
    }

    private static Object read(Slot slot, Object reply) throws BadAnswer {
        if (reply instanceof Replies.Failure) {
            return reply;
        }
        return slot.request == null ? RationClient.done(reply) : slot.request.reading().read(reply);
    }

    private static void settle(Slot slot, Object reply, Object answer) {
        if (slot.late != null) {
            slot.late.accept(reply);
        } else {
            slot.settle(answer);
        }
    }

    /** If it comes too late, 0, the decision is under way, and is given back. */
    private void leave(long line) {
        tell(new Command("RATION.LEAVE", Long.toString(line)), reply -> {
            if (Long.valueOf(1).equals(reply)) {
                lines.remove(line);
            }
        });
    }

    private void giveBack(Slot slot, Object reply) {
        if (reply instanceof Map<?, ?> decision) {
            if (decision.get("lease") instanceof String lease) {
                tell(new Command(slot.request.undo(), lease), ignored -> {});
            }
            if (decision.get("turn") instanceof String turn) {
                tell(new Command("RATION.REFUND", turn), ignored -> {});
            }
        }
    }

    private void tell(Command command, Consumer<Object> late) {
        if (wire != null) {
            put(new Slot(null, 0, late), command.bytes());
        }
    }
}
