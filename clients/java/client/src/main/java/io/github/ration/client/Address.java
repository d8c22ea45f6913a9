// SPDX-License-Identifier: Apache-2.0
// Where rationd is, and how a connection to it begins.

package io.github.ration.client;

import java.io.ByteArrayOutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.URLDecoder;
import java.net.UnixDomainSocketAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.NoSuchAlgorithmException;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;

final class Address {
    private static final Pattern TCP = Pattern.compile(
            "(rations?)://(?:([^:@/]*):([^@/]*)@)?(?:\\[([0-9A-Fa-f:.%]+)]|([^:@/\\[\\]]+))(?::(\\d{1,5}))?/?");
    private static final Pattern UNIX = Pattern.compile("unix:(?://(?=/))?(.+)");

    private final String url; // without a token
    private final Path path; // null: TCP
    private final String host;
    private final int port;
    private final SSLContext tls; // null: none
    private final String name;
    private final String token;

    Address(String url, String token, SSLContext tls) {
        Matcher unix = UNIX.matcher(String.valueOf(url));
        Matcher tcp = TCP.matcher(String.valueOf(url));
        boolean isUnix = unix.matches();
        if (!isUnix && !tcp.matches() || !isUnix && tcp.group(6) != null && Integer.parseInt(tcp.group(6)) > 65535) {
            String found = url == null ? "null" : url.replaceFirst("//.*@", "//"); // no tokens in messages
            throw new IllegalArgumentException("the address must be ration://host:port, rations://host:port or unix:/path, with a token "
                    + "ration://:token@host:port, found " + found);
        }
        path = isUnix ? Path.of(unix.group(1)) : null;
        host = isUnix ? "" : tcp.group(4) != null ? tcp.group(4) : tcp.group(5);
        port = isUnix || tcp.group(6) == null ? 6380 : Integer.parseInt(tcp.group(6));
        this.url = isUnix ? url : tcp.group(1) + "://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
        if (tls != null && (isUnix || tcp.group(1).equals("ration"))) {
            throw new IllegalArgumentException("tls is for an address that begins with rations://, found " + this.url);
        }
        this.tls = isUnix || tcp.group(1).equals("ration") ? null : tls != null ? tls : systemTls();
        name = isUnix ? "" : decoded(tcp.group(2));
        this.token = token != null ? token : isUnix ? "" : decoded(tcp.group(3));
    }

    private static String decoded(String text) {
        return text == null ? "" : URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    private static SSLContext systemTls() {
        try {
            return SSLContext.getDefault();
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalArgumentException("rations:// needs a default SSLContext, or one by tls(): " + error.getMessage(), error);
        }
    }

    List<SocketAddress> targets() throws UnknownHostException {
        if (path != null) {
            return List.of(UnixDomainSocketAddress.of(path));
        }
        return Stream.of(addresses()).<SocketAddress>map(each -> new InetSocketAddress(each, port)).toList();
    }

    private InetAddress[] addresses() throws UnknownHostException {
        try {
            return InetAddress.getAllByName(host);
        } catch (UnknownHostException error) { // its message may be the name alone
            throw new UnknownHostException("the name " + host + " has no address");
        }
    }

    /** Null without TLS. */
    SSLEngine newEngine() {
        if (tls == null) {
            return null;
        }
        SSLEngine engine = tls.createSSLEngine(host, port);
        SSLParameters parameters = engine.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        engine.setSSLParameters(parameters);
        engine.setUseClientMode(true);
        return engine;
    }

    byte[] greeting() {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        if (!token.isEmpty()) {
            Command auth = name.isEmpty() ? new Command("AUTH") : new Command("AUTH", name);
            out.writeBytes(auth.add(token).bytes());
        }
        out.writeBytes(new Command("HELLO", "3").bytes());
        return out.toByteArray();
    }

    int repliesOfGreeting() {
        return token.isEmpty() ? 1 : 2;
    }

    void checkGreeting(List<Object> replies) throws BadAnswer {
        for (Object reply : replies) {
            if (reply instanceof Replies.Failure failure) {
                throw new BadAnswer("refused: " + failure.text());
            }
        }
        Object hello = replies.get(replies.size() - 1);
        Object server = hello instanceof Map<?, ?> members ? members.get("server") : hello;
        if (!(hello instanceof Map) || !"ration".equals(server)) {
            throw new BadAnswer("it is no rationd: HELLO answers server " + BadAnswer.found(server) + "; give the address of its --resp");
        }
    }

    @Override
    public String toString() {
        return url;
    }
}
