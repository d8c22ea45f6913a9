// SPDX-License-Identifier: Apache-2.0
// One socket, with TLS or without: it takes and gives bytes, and waits for none but in await(). Not interruptible: channels
// that do not block are not closed when a thread that uses them is interrupted.

package io.github.ration.client;

import java.io.EOFException;
import java.io.IOException;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.List;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;

final class Wire {
    private static final int MOST_UNSENT = 1 << 20; // bytes that rationd has not taken
    private static final int BUFFER = 1 << 16;
    private static final ByteBuffer EMPTY = ByteBuffer.allocate(0);

    private final SocketChannel channel;
    private final SelectionKey key;
    private final SSLEngine engine; // null: no TLS
    private final ByteBuffer in = ByteBuffer.allocateDirect(BUFFER); // of TLS: what is no whole record yet
    private final ByteBuffer plain = ByteBuffer.allocate(BUFFER); // of TLS
    private ByteBuffer out = ByteBuffer.allocateDirect(BUFFER); // not sent yet

    private Wire(SocketChannel channel, SelectionKey key, SSLEngine engine) {
        this.channel = channel;
        this.key = key;
        this.engine = engine;
    }

    /** Tries each address of the host until one takes the connection. None takes the time of those behind it. */
    static Wire connect(Address address, List<SocketAddress> targets, Selector selector, long until) throws IOException {
        IOException failure = new IOException("it has no address");
        for (int i = 0; i < targets.size(); i++) {
            SocketAddress target = targets.get(i);
            long now = System.nanoTime();
            long share = now + (until - now) / (targets.size() - i);
            SSLEngine engine = address.newEngine();
            boolean unix = target instanceof UnixDomainSocketAddress;
            SocketChannel channel = unix ? SocketChannel.open(StandardProtocolFamily.UNIX) : SocketChannel.open();
            try {
                channel.configureBlocking(false);
                if (!unix) {
                    channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
                }
                Wire wire = new Wire(channel, channel.register(selector, SelectionKey.OP_CONNECT), engine);
                for (boolean connected = channel.connect(target); !connected; connected = channel.finishConnect()) {
                    wire.await(share);
                }
                wire.key.interestOps(SelectionKey.OP_READ);
                return wire;
            } catch (IOException | RuntimeException error) { // also an address of a kind that this machine does not have
                channel.close();
                failure = error instanceof IOException known ? known : new IOException(error.toString(), error);
            }
        }
        throw failure;
    }

    /** Until something may be done; any time wakes up for nothing. */
    void await(long until) throws IOException {
        long rest = until - System.nanoTime();
        if (rest <= 0) {
            throw new SocketTimeoutException("no answer in time");
        }
        key.selector().select(ready -> {}, Math.max(1, rest / 1_000_000));
    }

    void await() throws IOException {
        key.selector().select(ready -> {});
    }

    void handshake(long until) throws IOException {
        if (engine != null) {
            engine.beginHandshake();
            for (receive(); isShakingHands(); receive()) {
                await(until);
            }
        }
    }

    private boolean isShakingHands() {
        return engine.getHandshakeStatus() != HandshakeStatus.NOT_HANDSHAKING;
    }

    /** All of it, now or as soon as rationd takes it. */
    void send(byte[] data) throws IOException {
        ByteBuffer source = ByteBuffer.wrap(data);
        if (engine == null) {
            makeRoom(data.length);
            out.put(source);
        }
        while (source.hasRemaining()) {
            wrap(source);
        }
        flush();
    }

    private void makeRoom(int size) throws IOException {
        int needed = out.position() + size;
        if (needed > MOST_UNSENT) {
            throw new IOException("it does not take commands any more");
        }
        if (needed > out.capacity()) {
            out = ByteBuffer.allocateDirect(Math.max(needed, 2 * out.capacity())).put(out.flip());
        }
    }

    void flush() throws IOException {
        if (out.position() > 0) {
            channel.write(out.flip());
            out.compact();
            int wanted = SelectionKey.OP_READ | (out.position() > 0 ? SelectionKey.OP_WRITE : 0);
            if (key.interestOps() != wanted) {
                key.interestOps(wanted);
                key.selector().wakeup();
            }
        }
    }

    /** What has arrived; empty if nothing has. It is valid until the next call. At the end an EOFException. */
    ByteBuffer receive() throws IOException {
        flush();
        if (engine == null) {
            if (channel.read(in.clear()) < 0) {
                throw new EOFException("rationd has closed the connection");
            }
            return in.flip();
        }
        boolean ended = channel.read(in) < 0;
        in.flip();
        plain.clear();
        for (boolean more = true; more; ) {
            more = step();
        }
        in.compact();
        if ((ended || engine.isInboundDone()) && plain.position() == 0) {
            throw new EOFException("rationd has closed the connection");
        }
        return plain.flip();
    }

    /** One step of TLS; whether another one may be possible. */
    private boolean step() throws IOException {
        HandshakeStatus status = engine.getHandshakeStatus();
        if (status == HandshakeStatus.NEED_TASK) {
            engine.getDelegatedTask().run();
            return true;
        }
        if (status == HandshakeStatus.NEED_WRAP) {
            wrap(EMPTY);
            flush();
            return true;
        }
        SSLEngineResult result = engine.unwrap(in, plain);
        return result.getStatus() == SSLEngineResult.Status.OK;
    }

    private void wrap(ByteBuffer source) throws IOException {
        makeRoom(engine.getSession().getPacketBufferSize());
        SSLEngineResult result = engine.wrap(source, out);
        if (result.bytesConsumed() + result.bytesProduced() == 0) {
            throw new IOException("TLS has ended");
        }
    }

    /** Tells the peer if it listens, and wakes the thread that awaits. */
    void close() {
        try (channel) {
            if (engine != null) {
                engine.closeOutbound();
                wrap(EMPTY);
                flush();
            }
        } catch (IOException | RuntimeException ignored) {
            // it is gone in any case
        }
        key.selector().wakeup();
    }
}
